"""A look into the cache of paid replies, and its clearing."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="What the cache of paid replies holds, and its clearing.",
    verbs={
        "cache": Verb(
            summary="Inspect and clear the cache of paid replies.",
            heading="Data and tools",
            target=".verbs:cache",
        ),
    },
)
