"""Anthropic's Messages API, with its prompt cache."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Anthropic's Messages API, with its prompt cache.",
    backends={"anthropic": ".backend:AnthropicBackend"},
)
