"""OpenAI's Responses API, which the models named ``-pro`` and ``-codex`` require."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="OpenAI's Responses API, which some of its models require.",
    backends={"openai_responses": ".backend:OpenAIResponsesBackend"},
)
