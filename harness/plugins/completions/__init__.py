"""OpenAI's legacy Completions API: base models, and log-likelihoods of given answers."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="OpenAI's legacy Completions API: base models, and log-likelihoods of given answers.",
    backends={"openai_completions": ".backend:OpenAICompletionsBackend"},
)
