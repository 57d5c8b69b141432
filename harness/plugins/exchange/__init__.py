"""Export of runs for other tools, and import of their results."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Export of runs for other tools, and import of their results.",
    requires=("lm_eval",),
    cautions={"imported": ".imported_run:contradictions"},
    results={"ExportedRows": ".exported_run:ExportedRows"},
    verbs={
        "export": Verb(
            summary="Export runs for other tools.",
            heading="Data and tools",
            target=".verbs:export",
            completes="harness.cli.verbs:run_names",
            former_options={"-o": "--output"},
        ),
        "import": Verb(
            summary="Import another tool's results as a run.",
            heading="Data and tools",
            target=".verbs:import_",
        ),
    },
)
