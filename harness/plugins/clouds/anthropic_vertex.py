"""Anthropic's models on Google Cloud's Vertex AI.

    model: {backend: anthropic_vertex, name: claude-sonnet-5-5, project: my-project}

Source: https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from harness.backends import REPLY_MB, FindCut, OnAllowances
from harness.plugins.anthropic.backend import TAKEN, MessagesBackend
from harness.plugins.clouds.gemini import GoogleCloudClient, vertex_url
from harness.records import Request

VERSION = "vertex-2023-10-16"


class AnthropicVertexBackend(MessagesBackend):
    """Anthropic's Messages API on Vertex AI, with Google's Application Default Credentials.

    Args:
        project: The Google Cloud project.
        location: A location of Vertex AI, such as ``europe-west1``.
        base_url: Base URL of another server that speaks this protocol.
        prompt_caching: Whether to use the prompt cache for beginnings that prompts share.
    """

    def __init__(
        self,
        project: str,
        location: str = "global",
        base_url: str | None = None,
        prompt_caching: bool = False,
        *,
        concurrency: int,
        timeout_s: float,
        reply_mb: float = REPLY_MB,
        on_allowances: OnAllowances | None = None,
        prompt_cut: FindCut | None = None,
    ) -> None:
        limits: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
        limits |= {"reply_mb": reply_mb, "on_allowances": on_allowances}
        client = GoogleCloudClient(base_url or vertex_url(location), **limits)
        self.path = f"/projects/{quote(project)}/locations/{quote(location)}/publishers/anthropic"
        features = TAKEN | {"temperature", "top_p"}
        super().__init__(client, features, prompt_cut if prompt_caching else None)

    def path_for(self, request: Request, *, stream: bool = False) -> str:
        method = "streamRawPredict" if stream else "rawPredict"
        return f"{self.path}/models/{quote(request.model, safe='@')}:{method}"

    def body(self, request: Request) -> Mapping[str, Any]:
        body = {k: value for k, value in super().body(request).items() if k != "model"}
        return {"anthropic_version": VERSION, **body}
