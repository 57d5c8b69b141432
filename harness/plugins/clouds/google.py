"""Google's Gemini API, and Anthropic's models on Google Cloud's Vertex AI.

Gemini is called at Google AI Studio with a key, or on Vertex AI with a project.

    model: {backend: gemini, name: gemini-3.8-flash}
    model: {backend: gemini, name: gemini-3.8-flash, project: my-project, location: europe-west4}
    model: {backend: anthropic_vertex, name: claude-sonnet-5-5, project: my-project}

Sources: https://ai.google.dev/api/generate-content, the types of google-genai 3.6, and
https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai. Requests to Google Cloud
have the credentials of Google's own tools (https://google.aip.dev/auth/4110).
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import structs

from harness.backends import (
    MAX_REPLY_MB,
    FindCut,
    HttpBackend,
    HttpClient,
    OnAllowances,
    TokenClient,
    bodies,
    convert_cloud_errors,
)
from harness.errors import ConfigError, PromptRefused, import_extra
from harness.plugins.anthropic.backend import TAKEN, MessagesBackend
from harness.ports import LOGPROBS, SAMPLES_PER_CALL
from harness.records import DecodingConstraint, JsonObject, Logprobs, Message, Reply, Request, Usage

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def vertex_url(location: str) -> str:
    """Return the base URL of Vertex AI in a location such as ``europe-west4`` or ``global``."""
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{quote(location)}-aiplatform.googleapis.com/v1"


class GoogleCloudClient(TokenClient):
    """A client that sends an access token of Google's Application Default Credentials."""

    library = "google.auth", "google"
    _credentials: Any = None

    def has_valid_token(self) -> bool:
        return bool(self._credentials and self._credentials.valid)

    def fetch_token(self) -> str:
        google = import_extra(*self.library)
        transport = import_extra("google.auth.transport.requests", "google")
        with convert_cloud_errors("Google Cloud", "Log in: gcloud auth application-default login."):
            if self._credentials is None:
                self._credentials, _ = google.default(scopes=[SCOPE])
            self._credentials.refresh(transport.Request())
        token: str = self._credentials.token
        return token


URL = "https://generativelanguage.googleapis.com/v1beta"
KEY = "GEMINI_API_KEY"

FILTERED = {
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
    "ESCALATION",
}
FINISH_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(FILTERED, "content_filter"),
}
"""Our finish reasons, by Gemini's. Others are kept in lower case."""
SIGNED = (b'"thoughtSignature"',)


class _FunctionCall(msgspec.Struct):
    name: Any = None
    args: Any = None


class _Part(msgspec.Struct, rename="camel"):
    text: Any = None
    thought: bool = False
    function_call: _FunctionCall | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    logprobs_result: Any = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: bodies.TokenCount
    candidates_token_count: bodies.TokenCount | None = None
    thoughts_token_count: bodies.TokenCount | None = None
    cached_content_token_count: bodies.TokenCount | None = None
    service_tier: Any = None

    def record(self) -> Usage:
        thoughts = self.thoughts_token_count or 0
        output = (self.candidates_token_count or 0) + thoughts
        cached = self.cached_content_token_count or 0
        return Usage(self.prompt_token_count, output, cached, thoughts)


class _Response(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    model_version: str | None = None
    usage_metadata: Any = None


class GeminiBackend(HttpBackend):
    """Google's Gemini API.

    Args:
        project: A Google Cloud project. If it is set, calls go to Vertex AI, with Google's
            Application Default Credentials. Otherwise they go to Google AI Studio, with a key.
        location: A location of Vertex AI, such as ``europe-west4``.
        base_url: Base URL of another server that speaks this protocol.
        api_key_env: The key's environment variable (default: ``GEMINI_API_KEY`` for AI Studio, none
            for another server).
        service_tier: Google's service tier, ``flex`` or ``priority``.
    """

    may_change = frozenset({"service_tier"})

    def __init__(
        self,
        project: str | None = None,
        location: str = "global",
        base_url: str | None = None,
        api_key_env: str | None = None,
        service_tier: str | None = None,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        reply_mb: float = MAX_REPLY_MB,
        on_allowances: OnAllowances | None = None,
    ) -> None:
        self.service_tier = service_tier
        limits: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
        limits |= {"reply_mb": reply_mb, "on_allowances": on_allowances}
        client: HttpClient
        self.project = project
        if project is not None:
            if api_key_env is not None:
                remedy = "Remove project to call Google AI Studio with the key, or api_key_env."
                raise ConfigError("model.project and model.api_key_env exclude each other.", remedy)
            client = GoogleCloudClient(base_url or vertex_url(location), **limits)
            self.path = f"/projects/{quote(project)}/locations/{quote(location)}/publishers/google"
        else:
            variable = api_key_env
            if not variable and base_url in (None, URL):
                variable = KEY
            key = secret(variable) if variable else ""
            limits |= {"key": key, "key_variable": variable, "key_header": "x-goog-api-key"}
            client = HttpClient(base_url or URL, **limits)
        features = {"temperature", "top_p", "max_tokens", "stop", "seed", "extra", LOGPROBS}
        constraints = {"json_schema", "choices", "conversation", SAMPLES_PER_CALL}
        super().__init__(client, frozenset(features | constraints))

    def path_for(self, request: Request) -> str:
        return f"{self.path}/models/{quote(request.model, safe='')}:generateContent"

    def body(self, request: Request) -> Mapping[str, Any]:
        decoding = request.decoding
        config: JsonObject = {
            "temperature": decoding.temperature,
            "topP": decoding.top_p,
            "maxOutputTokens": decoding.max_tokens,
            "stopSequences": list(decoding.stop) or None,
            "seed": None if request.seed is None else request.seed % 2**31,
            "responseLogprobs": bool(decoding.logprobs) or None,
            "logprobs": decoding.logprobs,
        }
        if request.others:
            config["candidateCount"] = 1 + len(request.others)
        if isinstance(constraint := decoding.constraint, DecodingConstraint):
            config |= _constrained(constraint)
        config = {key: value for key, value in config.items() if value is not None}
        system = []
        contents = []
        for message in request.messages:
            if message.role == "system":
                system.append({"text": message.content})
            else:
                contents.append(_content(message))
        extra = dict(decoding.extra)
        config |= extra.pop("generationConfig", {})
        body: JsonObject = {"contents": contents}
        if system:
            body["systemInstruction"] = {"parts": system}
        if config:
            body["generationConfig"] = config
        if self.service_tier:
            body["serviceTier"] = self.service_tier
        return body | extra

    def reply(self, content: bytes, request: Request) -> Reply:
        response = bodies.decode_body(content, _Response)
        if not response.candidates:
            if (feedback := response.prompt_feedback) and feedback.block_reason:
                why = feedback.block_reason_message or feedback.block_reason
                raise PromptRefused(f"{self.endpoint} blocked the prompt: {why}")
            raise ValueError("a response has no candidates")
        first, *others = bodies.read_answers(
            range(len(response.candidates)),
            lambda place: _reply(content, response, place, request),
        )
        usage = bodies.decode_usage(response.usage_metadata, _Usage)
        if usage:
            tier = bodies.service_tier(usage.service_tier)
            first = structs.replace(first, usage=usage.record(), tier=tier)
        return bodies.join_samples(first, others, request)


def _reply(content: bytes, response: _Response, place: int, request: Request) -> Reply:
    """Return the reply of a candidate in a response, without the usage."""
    candidate = (response.candidates or [])[place]
    parts = (candidate.content and candidate.content.parts) or []
    state = None
    if parts:
        state = bodies.extract_state(content, SIGNED, "candidates", place, "content", "parts")
    text = ""
    thoughts = ""
    calls = []
    for part in parts:
        if part.thought:
            thoughts += bodies.content_text(part.text)
        else:
            text += bodies.content_text(part.text)
        if part.function_call:
            calls.append((part.function_call.name, part.function_call.args))
    reason = candidate.finish_reason or "STOP"
    reason = FINISH_REASONS.get(reason, reason.lower())
    text, reason = bodies.format_answer(text, reason, calls)
    return Reply(
        text,
        reason,
        model=response.model_version,
        reasoning=thoughts or None,
        logprobs=_logprobs(candidate.logprobs_result) if request.decoding.logprobs else None,
        reasoning_state=state,
    )


def _content(message: Message) -> JsonObject:
    role = "model" if message.role == "assistant" else "user"
    if message.reasoning_state is not None:
        return {"role": role, "parts": msgspec.Raw(message.reasoning_state.encode())}
    return {"role": role, "parts": [{"text": message.content}]}


def _constrained(constraint: DecodingConstraint) -> JsonObject:
    if constraint.choices:
        schema = {"type": "STRING", "enum": list(constraint.choices)}
        return {"responseMimeType": "text/x.enum", "responseSchema": schema}
    schema = constraint.json_schema or {}
    return {"responseMimeType": "application/json", "responseJsonSchema": schema}


def _logprobs(result: object) -> Logprobs | None:
    if not isinstance(result, dict) or not isinstance(result.get("topCandidates"), list):
        return None
    return bodies.rank_tokens(map(_pairs, result["topCandidates"]))


def _pairs(position: object) -> bodies.Pairs:
    top = position.get("candidates") if isinstance(position, dict) else None
    pairs = []
    for candidate in top if isinstance(top, list) else []:
        if isinstance(candidate, dict):
            pairs.append((candidate.get("token"), candidate.get("logProbability")))
    return pairs


VERTEX_VERSION = "vertex-2023-10-16"


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
        reply_mb: float = MAX_REPLY_MB,
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
        body = {"anthropic_version": VERTEX_VERSION, **super().body(request)}
        body.pop("model", None)
        return body
