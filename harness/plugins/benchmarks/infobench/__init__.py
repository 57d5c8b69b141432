"""InFoBench: instructions decomposed into yes-or-no requirements (arXiv 2401.03601)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="InFoBench: instructions decomposed into yes-or-no requirements (arXiv 2401.03601).",
    tasks={"infobench": ".task:InfoBenchTask"},
    judges={"infobench": ".task:InfoBenchJudge"},
)
