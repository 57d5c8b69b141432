"""Data sets: their download, where they are, and what they hold."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="The download of public data sets, where they are, and what they hold.",
    checkups={"Data": ".fetch:check"},
    preparations={"published": ".fetch:fetch_published"},
    verbs={
        "data": Verb(
            summary="Fetch public data sets, list them, and show where they are.",
            heading="Data and tools",
            target=".verbs:data",
            executes=True,
            former_options={"--option": "--override"},
        ),
    },
)
