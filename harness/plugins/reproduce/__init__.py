"""Reproduction of the tables and figures of papers."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Reproduction of the tables and figures of papers.",
    requires=("comparisons", "report"),
    verbs={
        "reproduce": Verb(
            summary="Reproduce the tables and figures of a paper.",
            heading="Run",
            target=".reproduction:reproduce",
            executes=True,
        )
    },
)
