"""The metrics, answers and failures of runs in the terminal."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="The metrics, answers and failures of runs, and the views that plug-ins bring.",
    verbs={
        "show": Verb(
            summary="Show a run's metrics, its failures, or one instance in full.",
            heading="Look at runs",
            target=".verb:show",
            completes="harness.cli.verbs:run_names",
        )
    },
)
