"""One run from the runs of all shards of a run file."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="One run from the runs of all shards of a run file.",
    verbs={
        "merge": Verb(
            summary="Merge the shards of a run into one run.",
            heading="Run",
            target=".merging:merge_all",
        ),
    },
)
