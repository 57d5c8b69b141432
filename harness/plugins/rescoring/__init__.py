"""Scoring runs again: `harness score`, and runs that continue after a check has changed."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Scoring the recorded answers of runs again, without model calls.",
    run_steps={"rescore": ".rescorer:rescore"},
    verbs={
        "score": Verb(
            summary="Score a run again without model calls.",
            heading="Score again",
            target=".verb:score",
            executes=True,
            completes="harness.cli.verbs:run_names",
        ),
    },
)
