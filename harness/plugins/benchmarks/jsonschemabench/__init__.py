"""JSONSchemaBench: output that satisfies real-world JSON Schemas (arXiv 2501.10868)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="JSONSchemaBench: output that satisfies real-world JSON Schemas (arXiv 2501.10868).",
    tasks={"jsonschemabench": ".task:JSONSchemaBenchTask"},
)
