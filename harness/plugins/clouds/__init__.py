"""Models of the clouds: Google's Gemini, Amazon Bedrock, and Anthropic's models on Vertex AI."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Google's Gemini, models on Amazon Bedrock, and Anthropic's models on Vertex AI.",
    requires=("anthropic",),
    backends={
        "anthropic_vertex": ".google:AnthropicVertexBackend",
        "bedrock": ".bedrock:BedrockBackend",
        "gemini": ".google:GeminiBackend",
    },
)
