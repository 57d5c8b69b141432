"""Last letters: the effect of output formats on reasoning (arXiv 2408.02442)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Last letters: the effect of output formats on reasoning (arXiv 2408.02442).",
    requires=("short_answers",),
    tasks={"last_letter": ".task:LastLetterTask"},
    judges={"ai_parser": ".task:AIParser"},
    study="study.yaml",
)
