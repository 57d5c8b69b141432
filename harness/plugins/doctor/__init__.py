"""A check of the installation, keys, servers, data and folders."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="A check of the installation, keys, servers, data and folders.",
    requires=("anthropic",),
    verbs={
        "doctor": Verb(
            summary="Check the installation, keys, servers, data and folders.",
            heading="Look up and check",
            target=".verb:doctor",
        ),
    },
)
