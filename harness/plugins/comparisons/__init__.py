"""Comparisons of runs: with a baseline, of variants, every pair, rankings, and results tables."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Comparisons of runs: with a baseline, of variants, of every pair, and of models.",
    api={"compare": ".api:compare"},
    results={"ComparisonResult": ".api:ComparisonResult"},
    suite_documents={
        "suite": ".cross_table_document:runs_suite_document",
        "variants": ".comparison_document:variants_document",
    },
    verbs={
        "compare": Verb(
            summary="Is one run better than another?",
            heading="Compare runs",
            target=".compare:compare",
            completes="harness.cli.verbs:run_names",
        ),
        "table": Verb(
            summary="What would a paper's results table of these runs look like?",
            heading="Compare runs",
            target=".verbs:table",
            completes="harness.cli.verbs:run_names",
        ),
        "ablation": Verb(
            summary="How much does each variant of a run file gain over the baseline?",
            heading="Compare runs",
            target=".verbs:ablation",
        ),
        "matrix": Verb(
            summary="Which pairs of runs differ, and do groups rank the runs alike?",
            heading="Compare runs",
            target=".verbs:matrix",
            completes="harness.cli.verbs:run_names",
        ),
    },
)
