"""FollowBench: instructions with one to five constraints (arXiv 2310.20410)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="FollowBench: instructions with one to five constraints (arXiv 2310.20410).",
    tasks={"followbench": ".task:FollowBenchTask"},
    judges={"followbench": ".judge:FollowBenchJudge"},
    table_figures={"consecutive": ".task:LEVELS", "partial": ".task:SOFT_RATE"},
    data_sets="data_sets.yaml",
    study="study.yaml",
)
