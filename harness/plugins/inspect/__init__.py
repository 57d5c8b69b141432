"""Tasks of Inspect AI, with their solvers and scorers."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Tasks of Inspect AI, with their solvers and scorers.",
    tasks={"inspect": ".task:InspectTask"},
)
