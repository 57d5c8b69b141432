"""Help for newcomers: the documentation's pages, and the files of a first benchmark."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="The pages of the documentation, and the files of a first benchmark.",
    verbs={
        "init": Verb(
            summary="Write the files of your first benchmark.",
            heading="Run",
            target=".pages:init",
        ),
        "docs": Verb(
            summary="List the pages of the documentation, or show one.",
            heading="Look up and check",
            target=".pages:docs",
        ),
    },
)
