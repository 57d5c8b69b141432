"""IFBench: 58 further kinds of verifiable instructions (arXiv 2507.02833)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="IFBench: 58 further kinds of verifiable instructions (arXiv 2507.02833).",
    requires=("ifeval",),
    tasks={"ifbench": ".instructions:IFBenchTask"},
    checkers={"ifbench:*": ".instructions:PLUGINS"},
    extensions={"verifiable_instructions": {"ifbench": ".instructions:TABLE"}},
    data_sets="data_sets.yaml",
    study="study.yaml",
)
