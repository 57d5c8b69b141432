"""Simulates the text generation of Google's Gemini API."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from harness.plugins.mock import wire
from harness.plugins.mock.wire import ApiError, Headers, Level, MockRequest, ReplyChoice, Turn

_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "refusal": "STOP"}
_STATUSES = {
    **{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"},
    **{404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"},
}
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class _Part(Struct):
    text: str = ""


class _Content(Struct):
    parts: list[_Part] = []
    role: str = "user"


class _Thinking(Struct, rename="camel"):
    include_thoughts: bool = False
    thinking_budget: int | None = None


class _Config(Struct, rename="camel"):
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop_sequences: tuple[str, ...] = ()
    candidate_count: Annotated[int, Meta(ge=1, le=8)] = 1
    response_logprobs: bool = False
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    thinking_config: _Thinking | None = None


class _Request(Struct, rename="camel"):
    contents: Annotated[list[_Content], Meta(min_length=1)]
    system_instruction: _Content | None = None
    generation_config: _Config | None = None


class GeminiContent(wire.WireFormat):
    """The wire format of a model's method ``:generateContent``."""

    path = "/models/{model}:generateContent"
    request_id_header = b"x-request-id"
    spent = (429, "You exceeded your current quota, please check your plan and billing details.")
    failures: ClassVar = {
        500: "An internal error has occurred.",
        **dict.fromkeys((503, 529), "The model is overloaded. Please try again later."),
    }
    reported = ()  # Gemini does not report its limits

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        request = self.decode(body, _Request)
        for number, content in enumerate(request.contents):
            if content.role not in ("user", "model"):
                raise self.invalid("Please use a valid role: user, model.")
            if not any(part.text for part in content.parts):
                said = f"GenerateContentRequest.contents[{number}].parts: must not be empty."
                raise self.invalid(said)
        config = request.generation_config or _Config()
        roles = {"model": "assistant", "user": "user"}
        turns = [Turn(roles[content.role], _text(content)) for content in request.contents]
        if request.system_instruction:
            turns.insert(0, Turn("system", _text(request.system_instruction)))
        thinking = config.thinking_config or _Thinking()
        return MockRequest(
            digest=digest,
            model="",  # in the path
            turns=tuple(turns),
            n=config.candidate_count,
            max_tokens=config.max_output_tokens,
            stop=config.stop_sequences,
            reasons=thinking.thinking_budget != 0,
            shows_reasoning=thinking.include_thoughts,
            logprobs=(config.logprobs or 0) if config.response_logprobs else None,
        )

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> dict[str, Any]:
        thoughts = sum(choice.reasoning_tokens for choice in choices)
        written = sum(choice.tokens for choice in choices) - thoughts
        usage = {
            "promptTokenCount": request.prompt_tokens,
            "candidatesTokenCount": written,
            "thoughtsTokenCount": thoughts,
            "totalTokenCount": request.prompt_tokens + written + thoughts,
        }
        return {
            "candidates": [
                {"index": index, **_candidate(request, choice)}
                for index, choice in enumerate(choices)
            ],
            "usageMetadata": usage,
            "modelVersion": request.model,
            "responseId": request.digest,
        }

    def fail(
        self, status: int, message: str, code: str | None = None, retry_after: float | None = None
    ) -> ApiError:
        details: list[dict[str, object]] = []
        if code is not None:
            details.append({"@type": _ERROR_INFO, "reason": code, "domain": "googleapis.com"})
        if retry_after:
            details.append({"@type": _RETRY_INFO, "retryDelay": f"{retry_after:g}s"})
        error = {"code": status, "message": message, "status": _STATUSES.get(status, "UNKNOWN")}
        return ApiError(status, error | {"details": details}, retry_after)

    def no_credit(self) -> ApiError:
        violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
        failure = {"@type": _QUOTA_FAILURE, "violations": [violation]}
        error = super().no_credit()
        return ApiError(error.status, {**error.error, "details": [failure]})

    def check_key(self, headers: Headers, key: str) -> None:
        """Raise ApiError (400, like Google) unless x-goog-api-key, or else the token, is right."""
        if (wire.header(headers, b"x-goog-api-key") or wire.bearer(headers)) != key:
            said = "API key not valid. Please pass a valid API key."
            raise self.fail(400, said, "API_KEY_INVALID")

    def unknown_model(self, model: str) -> ApiError:
        return self.fail(404, f"models/{model} is not found for API version v1beta.")

    def refused(self, parameter: str, value: object) -> ApiError | None:
        return self.invalid(f"{parameter} is not supported by this model.")

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> ApiError:
        said = f"You exceeded your current quota for {model}."
        return self.fail(429, said, retry_after=retry_after)


def _text(content: _Content) -> str:
    return "".join(part.text for part in content.parts)


def _candidate(request: MockRequest, choice: ReplyChoice) -> Mapping[str, object]:
    parts: list[dict[str, object]] = [{"text": choice.text}] if choice.text else []
    if choice.reasoning and request.shows_reasoning:
        parts.insert(0, {"text": choice.reasoning, "thought": True})
    found: dict[str, object] = {
        "content": {"role": "model", "parts": parts},
        "finishReason": _FINISH[choice.finish],
    }
    if choice.positions is not None:
        found["logprobsResult"] = {
            "chosenCandidates": [_token(p.token, p.logprob) for p in choice.positions],
            "topCandidates": [
                {"candidates": [_token(*likely) for likely in p.likeliest]}
                for p in choice.positions
            ],
        }
    return found


def _token(token: str, logprob: float) -> dict[str, object]:
    return {"token": token, "logProbability": logprob}
