"""OpenAI chat completions, worded as OpenAI words them.

Refuses streaming: an evaluation reads whole answers. Parameters that shape the
text (temperature, stop, seed, …) change the body's digest and so the answer,
but are not obeyed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from harness.mock.limits import Level
from harness.mock.wire import Ask, Choice, Headers, Problem, Turn

_Positive = Annotated[int, Meta(ge=1)]


class _Part(Struct):
    type: str = "text"
    text: str = ""


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None


class _Request(Struct):
    model: str
    messages: Annotated[list[_Message], Meta(min_length=1)]
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    max_tokens: _Positive | None = None
    max_completion_tokens: _Positive | None = None
    stream: bool | None = None


class _AnswerMessage(Struct):
    content: str | None
    refusal: str | None = None
    role: str = "assistant"


class _AnswerChoice(Struct):
    index: int
    message: _AnswerMessage
    finish_reason: str
    logprobs: None = None


class _PromptDetails(Struct, frozen=True):
    cached_tokens: int = 0


class _CompletionDetails(Struct, frozen=True):
    reasoning_tokens: int = 0


class _Usage(Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _PromptDetails = _PromptDetails()
    completion_tokens_details: _CompletionDetails = _CompletionDetails()


class _Completion(Struct):
    id: str
    created: int
    model: str
    choices: list[_AnswerChoice]
    usage: _Usage
    object: str = "chat.completion"
    system_fingerprint: str = "mock"


class OpenAIChat:
    """The wire format of ``POST /v1/chat/completions``."""

    path = "/v1/chat/completions"

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Request)
        self._encoder = msgspec.json.Encoder()

    def credential(self, headers: Headers) -> str | None:
        """The bearer token."""
        for name, value in headers:
            if name == b"authorization":
                scheme, _, key = value.decode("latin-1").partition(" ")
                return key.strip() if scheme.lower() == "bearer" else None
        return None

    def read(self, body: bytes, digest: str) -> Ask:
        """What a body asks for. Raises: Problem (400)."""
        try:
            request = self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise self.invalid(f"Invalid request: {error}.") from None
        except msgspec.DecodeError:
            raise self.invalid(
                "We could not parse the JSON body of your request. (HINT: This likely means you "
                "aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, "
                "but what was sent was not valid JSON.)"
            ) from None
        if request.stream:
            raise self.invalid("The mock provider does not stream.", "unsupported_value")
        return Ask(
            digest=digest,
            model=request.model,
            turns=tuple(Turn(m.role, _text(m.content)) for m in request.messages),
            n=request.n or 1,
            max_tokens=request.max_completion_tokens or request.max_tokens,
        )

    def answer(self, ask: Ask, choices: Sequence[Choice], created: int) -> bytes:
        """The body of a 200."""
        prompt_tokens = ask.prompt_tokens
        completion_tokens = sum(choice.tokens for choice in choices)
        return self._encoder.encode(
            _Completion(
                id=f"chatcmpl-{ask.digest}",
                created=created,
                model=ask.model,
                choices=[_choice(i, choice) for i, choice in enumerate(choices)],
                usage=_Usage(prompt_tokens, completion_tokens, prompt_tokens + completion_tokens),
            )
        )

    def models(self, names: Collection[str]) -> bytes:
        """The list of the models there are."""
        models = [{"id": n, "object": "model", "created": 0, "owned_by": "mock"} for n in names]
        return self._encoder.encode({"object": "list", "data": models})

    def unauthorised(self, credential: str | None) -> Problem:
        """The key is missing or wrong."""
        if credential is None:
            return self._problem(
                401,
                "You didn't provide an API key. You need to provide your API key in an "
                "Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY), or "
                "as the password field (with blank username) if you're accessing the API from your "
                "browser and are prompted for a username and password. You can obtain an API key "
                "from https://platform.openai.com/account/api-keys.",
            )
        return self._problem(
            401,
            f"Incorrect API key provided: {_masked(credential)}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
        )

    def unknown_model(self, model: str) -> Problem:
        """There is no such model."""
        return self._problem(
            404,
            f"The model `{model}` does not exist or you do not have access to it.",
            code="model_not_found",
        )

    def invalid(self, message: str, code: str | None = None) -> Problem:
        """The request makes no sense."""
        return self._problem(400, message, code=code)

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> Problem:
        """A rate limit is reached."""
        unit = level.unit if level else "requests"
        figures = (
            f": Limit {level.limit}, Used {level.used}, Requested {level.wanted}" if level else ""
        )
        wait = f" Please try again in {retry_after:g}s." if retry_after else ""
        return self._problem(
            429,
            f"Rate limit reached for {model} on {unit} per min ({unit[0].upper()}PM){figures}."
            f"{wait} Visit https://platform.openai.com/account/rate-limits to learn more.",
            kind=unit,
            code="rate_limit_exceeded",
            retry_after=retry_after,
        )

    def failed(self, status: int) -> Problem:
        """The provider itself failed."""
        if status == 500:
            message = "The server had an error while processing your request. Sorry about that!"
        else:
            message = "The engine is currently overloaded, please try again later."
        return self._problem(status, message, kind="server_error")

    def limit_headers(self, levels: Sequence[Level]) -> Headers:
        """``x-ratelimit-{limit,remaining,reset}-{requests,tokens}``."""
        headers = []
        for level in levels:
            figures = {
                "limit": str(level.limit),
                "remaining": str(level.remaining),
                "reset": f"{level.reset_s:.3f}s",
            }
            for name, value in figures.items():
                headers.append((f"x-ratelimit-{name}-{level.unit}".encode(), value.encode()))
        return headers

    def _problem(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        code: str | None = None,
        retry_after: float | None = None,
    ) -> Problem:
        error = {"message": message, "type": kind, "param": None, "code": code}
        return Problem(status, self._encoder.encode({"error": error}), retry_after)


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""


def _choice(index: int, choice: Choice) -> _AnswerChoice:
    if choice.finish == "refusal":
        message = _AnswerMessage(content=None, refusal=choice.text)
        return _AnswerChoice(index, message, "stop")
    return _AnswerChoice(index, _AnswerMessage(choice.text), choice.finish)


def _masked(key: str) -> str:
    # As the original does it: enough to recognise a key, not to use it.
    if len(key) < 12:
        return "*" * len(key)
    return f"{key[:3]}{'*' * (len(key) - 7)}{key[-4:]}"
