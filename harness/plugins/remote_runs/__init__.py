"""Copies of runs on an object store, from which another machine can continue them."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Copies of runs on an object store, from which another machine can continue them.",
    run_copies={"object_store": ".object_store:remote_runs"},
    verbs={
        "sync": Verb(
            summary="Get runs from the team's object store, and copy runs to it.",
            heading="Look at runs",
            target=".object_store:sync",
        ),
    },
)
