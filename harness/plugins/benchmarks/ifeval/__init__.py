"""IFEval: 25 kinds of verifiable instructions (arXiv 2311.07911)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="IFEval: 25 kinds of verifiable instructions (arXiv 2311.07911).",
    tasks={"ifeval": ".task:IFEvalTask"},
    checkers={"ifeval:*": ".instructions.ifeval:PLUGINS"},
    extensions={"verifiable_instructions": {"ifeval": ".instructions.ifeval:TABLE"}},
    data_sets="data_sets.yaml",
    study="study.yaml",
)
