"""JSONSchemaBench: output that satisfies real-world JSON Schemas (arXiv 2501.10868)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="JSONSchemaBench: output that satisfies real-world JSON Schemas (arXiv 2501.10868).",
    requires=("concodeeval",),
    tasks={"jsonschemabench": ".task:JSONSchemaBenchTask"},
    data_sets="data_sets.yaml",
    study="study.yaml",
)
