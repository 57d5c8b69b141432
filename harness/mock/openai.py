"""OpenAI's way with keys, errors, limits and usage, for all of its wire formats.

Limits of input or output alone are kept but not told: OpenAI has no words for them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from harness.mock.limits import Level
from harness.mock.wire import Ask, Choice, Headers, Problem, bearer

# What these parameters may still be where a model does not take another value.
_ONLY_VALUES = {"temperature": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0}

_T = TypeVar("_T")


class _PromptDetails(Struct, frozen=True):
    cached_tokens: int = 0


class _CompletionDetails(Struct, frozen=True):
    reasoning_tokens: int = 0


class Usage(Struct):
    """What an answer cost."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: _CompletionDetails
    prompt_tokens_details: _PromptDetails = _PromptDetails()


def usage(ask: Ask, choices: Sequence[Choice]) -> Usage:
    """What these choices cost; reasoning is part of the completion's tokens."""
    read, written = ask.prompt_tokens, sum(choice.tokens for choice in choices)
    reasoning = sum(choice.reasoning_tokens for choice in choices)
    return Usage(read, written, read + written, _CompletionDetails(reasoning))


def stops(stop: str | list[str] | None) -> tuple[str, ...]:
    """The ``stop`` parameter, which is one text or several."""
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


class OpenAI:
    """The `Vendor`."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()

    def credential(self, headers: Headers) -> str | None:
        """The bearer token."""
        return bearer(headers)

    def models(self, names: Collection[str]) -> bytes:
        """The list of the models there are."""
        models = [{"id": n, "object": "model", "created": 0, "owned_by": "mock"} for n in names]
        return self._encoder.encode({"object": "list", "data": models})

    def headers(
        self, request_id: str, levels: Sequence[Level], retry_after: float | None = None
    ) -> Headers:
        """``x-request-id``, ``x-ratelimit-{limit,remaining,reset}-{requests,tokens}``, waiting.

        Waiting is told in whole seconds, rounded up, and in milliseconds.
        """
        headers = [(b"x-request-id", request_id.encode())]
        for level in levels:
            if level.unit not in ("requests", "tokens"):
                continue
            figures = {
                "limit": str(level.limit),
                "remaining": str(level.remaining),
                "reset": _duration(level.reset_s),
            }
            for name, value in figures.items():
                headers.append((f"x-ratelimit-{name}-{level.unit}".encode(), value.encode()))
        if retry_after:
            headers.append((b"retry-after", b"%d" % math.ceil(retry_after)))
            headers.append((b"retry-after-ms", b"%d" % math.ceil(retry_after * 1000)))
        return headers

    def error(self, problem: Problem, request_id: str) -> bytes:
        """The body of an error; the id is in the headers alone."""
        return self._encoder.encode({"error": problem.error})

    def decode(self, decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
        """Read a body. Raises: Problem (400)."""
        try:
            return decoder.decode(body)
        except msgspec.ValidationError as error:
            raise self.invalid(f"Invalid request: {error}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.invalid(
                "We could not parse the JSON body of your request. (HINT: This likely means you "
                "aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, "
                "but what was sent was not valid JSON.)"
            ) from None

    def unauthorised(self, headers: Headers) -> Problem:
        """The key is missing or wrong."""
        credential = bearer(headers)
        if credential is None:
            message = (
                "You didn't provide an API key. You need to provide your API key in an "
                "Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY), or "
                "as the password field (with blank username) if you're accessing the API from your "
                "browser and are prompted for a username and password. You can obtain an API key "
                "from https://platform.openai.com/account/api-keys."
            )
            return Problem(401, _error(message))
        message = (
            f"Incorrect API key provided: {_masked(credential)}. You can find your API key at "
            "https://platform.openai.com/account/api-keys."
        )
        return Problem(401, _error(message, code="invalid_api_key"))

    def unknown_model(self, model: str) -> Problem:
        """There is no such model."""
        message = f"The model `{model}` does not exist or you do not have access to it."
        return Problem(404, _error(message, code="model_not_found"))

    def invalid(self, message: str, code: str | None = None) -> Problem:
        """The request makes no sense."""
        return Problem(400, _error(message, code=code))

    def refused(self, parameter: str, value: object) -> Problem | None:
        """A reasoning model's answer to what it does not take.

        Some parameters are refused as such, some only where they have another value than
        the default.
        """
        if parameter in _ONLY_VALUES:
            only = _ONLY_VALUES[parameter]
            if value == only:
                return None
            message = (
                f"Unsupported value: '{parameter}' does not support {value} with this model. "
                f"Only the default ({only}) value is supported."
            )
            return Problem(400, _error(message, code="unsupported_value", param=parameter))
        message = f"Unsupported parameter: '{parameter}' is not supported with this model."
        if parameter == "max_tokens":
            message += " Use 'max_completion_tokens' instead."
        return Problem(400, _error(message, code="unsupported_parameter", param=parameter))

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> Problem:
        """A rate limit is reached."""
        unit = "tokens" if level and level.unit != "requests" else "requests"
        figures = (
            f": Limit {level.limit}, Used {level.used}, Requested {level.wanted}" if level else ""
        )
        wait = f" Please try again in {_duration(retry_after)}." if retry_after else ""
        message = (
            f"Rate limit reached for {model} on {unit} per min ({unit[0].upper()}PM){figures}."
            f"{wait} Visit https://platform.openai.com/account/rate-limits to learn more."
        )
        return Problem(429, _error(message, unit, "rate_limit_exceeded"), retry_after)

    def failed(self, status: int) -> Problem:
        """The provider itself failed."""
        if status == 500:
            message = "The server had an error while processing your request. Sorry about that!"
        else:
            message = "The engine is currently overloaded, please try again later."
        return Problem(status, _error(message, "server_error"))


def _error(
    message: str,
    kind: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
) -> Mapping[str, object]:
    return {"message": message, "type": kind, "param": param, "code": code}


def _duration(seconds: float) -> str:
    """As OpenAI, and Go, write it: ``20ms``, ``1.5s``, ``6m0s``; never too short."""
    milliseconds = math.ceil(seconds * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"


def _masked(key: str) -> str:
    # As the original does it: enough to recognise a key, not to use it.
    if len(key) < 12:
        return "*" * len(key)
    return f"{key[:3]}{'*' * (len(key) - 7)}{key[-4:]}"
