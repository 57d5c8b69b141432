"""Comparisons of more than two runs: variants, every pair, rankings, and results tables."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="How much the variants of a run file gain, and which pairs of runs differ.",
    suite_documents={"suite": ".cross_table_document:runs_suite_document"},
    verbs={
        "table": Verb(
            summary="What would a paper's results table of these runs look like?",
            heading="Compare runs",
            place=".verbs:table",
            completes="harness.cli.completion:run_names",
        ),
        "ablation": Verb(
            summary="How much does each variant of a run file gain over the baseline?",
            heading="Compare runs",
            place=".verbs:ablation",
        ),
        "matrix": Verb(
            summary="Which pairs of runs differ, and do groups rank the runs alike?",
            heading="Compare runs",
            place=".verbs:matrix",
            completes="harness.cli.completion:run_names",
        ),
    },
)
