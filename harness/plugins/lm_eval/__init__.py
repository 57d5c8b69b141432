"""Tasks of lm-evaluation-harness, with its prompts and metrics."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Tasks of lm-evaluation-harness, with its prompts and metrics.",
    tasks={"lm_eval": ".task:LmEvalTask"},
)
