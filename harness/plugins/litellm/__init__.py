"""LiteLLM, for providers that have no other backend."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="LiteLLM, for providers that have no other backend.",
    backends={"litellm": ".backend:LiteLLMBackend"},
)
