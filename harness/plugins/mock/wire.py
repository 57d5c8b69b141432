"""Requests and answers independent of any protocol, and the common parts of the wire formats.

To add a wire format, write a subclass of `WireFormat` and list it in `app`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Struct
from msgspec.structs import replace

CHARACTERS_PER_TOKEN = 4  # a common rule of thumb for English; an exact count needs a tokeniser

Headers = list[tuple[bytes, bytes]]
JsonObject = dict[str, Any]
Finish = Literal["stop", "length", "content_filter", "refusal"]
Unit = Literal["requests", "tokens", "input tokens", "output tokens"]
UNITS: tuple[Unit, ...] = get_args(Unit)  # of rate limits; "tokens" is input and output together

_T = TypeVar("_T")


class MockError(ValueError):
    """An option is invalid, or the server cannot start."""


class NoAnswer(LookupError):
    """There is no recorded answer to a conversation."""


# How reasoning is returned: ``<think>…</think>`` before the answer in the same text,
# ``reasoning_content`` and ``reasoning`` next to a chat message's content, or Anthropic's
# ``thinking`` blocks. A wire format that lacks the chosen form hides the text and only counts its
# tokens, as OpenAI's own models do.
REASONING = ("think", "field", "blocks")


class Turn(Struct, frozen=True, rename={"text": "content"}):
    """One message of a conversation."""

    role: str
    text: str


class MockRequest(Struct, frozen=True):
    """A request to the simulated model, independent of the wire format."""

    digest: str  # hash of the body, as hexadecimal digits
    model: str
    turns: tuple[Turn, ...]
    n: int = 1
    max_tokens: int | None = None  # per choice, reasoning included
    stop: tuple[str, ...] = ()
    reasons: bool = True  # whether the model may reason before it answers
    shows_reasoning: bool = True
    logprobs: int | None = None  # likeliest tokens to return per position; None: none at all
    echoed: tuple[str, ...] = ()  # texts to return with the log-probabilities of their tokens
    prompts: tuple[str, ...] = ()  # if there are several: each gets answers of its own
    marked: str = ""  # the beginning of the prompt that the provider's cache is to keep
    cache_read: int = 0  # tokens of this beginning that were read from the cache
    cache_write: int = 0  # tokens of this beginning that were written to the cache
    stream: bool = False  # whether to send the reply as server-sent events

    @property
    def prompt(self) -> str:
        """The last user message (empty if there is none)."""
        for turn in reversed(self.turns):
            if turn.role == "user":
                return turn.text
        return ""

    def alone(self, prompt: str) -> MockRequest:
        """Return a request for one of this request's prompts."""
        digest = blake2b(f"{self.digest}{prompt}".encode(), digest_size=8).hexdigest()
        return replace(self, digest=digest, turns=(Turn("user", prompt),), prompts=())

    @property
    def prompt_tokens(self) -> int:
        """The estimated number of tokens in the conversation."""
        return 3 + sum(4 + count_tokens(turn.text) for turn in self.turns)


class TokenPosition(Struct, frozen=True):
    """The token at a position of an answer, and the likeliest tokens there."""

    token: str
    logprob: float
    likeliest: tuple[tuple[str, float], ...]


class ReplyChoice(Struct, frozen=True):
    """One of the ``n`` choices in a reply, independent of the wire format."""

    text: str
    finish: Finish = "stop"
    stop: str | None = None  # the stop string that ended the text, which does not include it
    reasoning: str = ""
    reasoning_tokens: int = 0  # may exceed the tokens of `reasoning`, which can be a summary
    positions: tuple[TokenPosition, ...] | None = None  # of echo and text, if requested
    echo: str = ""  # the prompt, if the reply repeats it before the text

    @property
    def tokens(self) -> int:
        """The estimated number of tokens in the answer and its reasoning."""
        return count_tokens(self.text) + self.reasoning_tokens


class Level(Struct, frozen=True):
    """How much of a rate limit is in use at the moment."""

    unit: Unit
    limit: int
    used: int
    wanted: int = 0  # amount that the current request needs
    wait_s: float = 0.0  # seconds until this amount is available
    reset_s: float = 0.0  # seconds until the limit is completely unused


@dataclass(eq=False)
class ApiError(Exception):
    """An error reply, independent of the vendor.

    ``code`` is the vendor's code for the error, ``param`` the parameter that it is about, ``kind``
    its type in OpenAI's API, and ``retry_after`` the seconds to wait.
    """

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    kind: str | None = None
    retry_after: float | None = None


class _VendorTexts(Struct, frozen=True, forbid_unknown_fields=True):
    request_id_header: str
    spent: tuple[int, str, str | None]  # status, message, code: the account has no credit
    failures: dict[int, str]  # of the provider, by status
    unknown_model: str
    refused: str
    unknown_model_code: str | None = None
    rate_limited: str = ""
    limit_header: str = ""  # with ``{unit}`` and ``{part}`` (limit, remaining, reset)
    reported: tuple[Unit, ...] = ()  # the limits to report in headers
    finish: dict[Finish, str] = {}  # the vendor's finish reasons
    error_types: dict[int, str] = {}  # by status


_VENDORS = msgspec.yaml.decode(
    Path(__file__).with_name("vendors.yaml").read_bytes(), type=dict[str, _VendorTexts]
)


class WireFormat(ABC):
    """Base class for a vendor's formats of requests, replies and error messages."""

    path: ClassVar[str]  # to post requests to; if it contains ``{model}``, only the end
    vendor: ClassVar[str]  # a key of ``vendors.yaml``

    def __init__(self, reasoning: str | None = None) -> None:
        self.reasoning = reasoning
        self.texts = _VENDORS[self.vendor]

    @abstractmethod
    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        """Decode a request, whose body has the hash ``digest``.

        Raises:
            ApiError: With status 400, if the body or a header is invalid.
        """

    @abstractmethod
    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> JsonObject:
        """Return the JSON object of a successful reply."""

    @abstractmethod
    def check_key(self, headers: Headers, key: str) -> None:
        """Raise ApiError unless the headers have this key."""

    def unknown_model(self, model: str) -> ApiError:
        """Return the error for a model that does not exist."""
        message = self.texts.unknown_model.format(model=model)
        return ApiError(404, message, self.texts.unknown_model_code)

    def refused(self, parameter: str, value: object) -> ApiError | None:
        """Return the error of a model that rejects a parameter, or None if the value is allowed."""
        return self.invalid(self.texts.refused.format(parameter=parameter))

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> ApiError:
        """Return the error for exceeding a rate limit (``level``, if known)."""
        message = self.texts.rate_limited.format(model=model)
        return ApiError(429, message, retry_after=retry_after)

    def too_many(self, model: str, limit: int | None, retry_after: float | None) -> ApiError:
        """Return the error for exceeding a limit of requests at any moment."""
        message = f"Rate limit exceeded for model: {model}. Limit type: max_parallel_requests. "
        message += f"Current limit: {limit}, Remaining: 0."  # as in LiteLLM
        return ApiError(429, message, retry_after=retry_after)

    def failure(self, status: int) -> ApiError:
        """Return the error reply of a simulated fault."""
        rejected = "The mock provider is configured to reject this request."
        return ApiError(status, self.texts.failures.get(status, rejected))

    def no_credit(self) -> ApiError:
        """Return the error for an account that has no credit or quota left."""
        return ApiError(*self.texts.spent)

    def reset(self, seconds: float) -> str:
        """Return the header value for a rate limit that resets ``seconds`` from now."""
        return f"{seconds:g}"

    @abstractmethod
    def error(self, error: ApiError, request_id: str) -> JsonObject:
        """Return the JSON object of an error reply."""

    def invalid(self, message: str, code: str | None = None) -> ApiError:
        """Return the error (400) for an invalid request."""
        return ApiError(400, message, code)

    def invalid_body(self, error: Exception) -> ApiError:
        """Return the error (400) for a body that is not JSON, or has missing or invalid fields."""
        return self.invalid(f"Invalid request: {error}.")

    def headers(
        self, request_id: str, levels: Sequence[Level] = (), retry_after: float | None = None
    ) -> Headers:
        """Return the headers of a reply.

        Args:
            request_id: The request's id.
            levels: The rate limits to report.
            retry_after: The seconds to wait, sent in seconds and in milliseconds, both rounded up.
                None or 0 omits these headers.
        """
        headers = [(self.texts.request_id_header.encode(), request_id.encode())]
        for level in levels:
            if level.unit not in self.texts.reported:
                continue
            left = level.limit - level.used
            reset = self.reset(level.reset_s)
            for part, value in {"limit": level.limit, "remaining": left, "reset": reset}.items():
                name = self.texts.limit_header.format(unit=level.unit.replace(" ", "-"), part=part)
                headers.append((name.encode(), str(value).encode()))
        if retry_after:
            headers.append((b"retry-after", b"%d" % math.ceil(retry_after)))
            headers.append((b"retry-after-ms", b"%d" % math.ceil(retry_after * 1000)))
        return headers

    def decode(self, body: bytes, kind: type[_T]) -> _T:
        """Decode a JSON body as ``kind``.

        Raises:
            ApiError: With status 400, if the body is invalid.
        """
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self.invalid_body(error) from None


class ModelCall:
    """A call of a model, in a vendor's wire format. ``model`` is the one in the path, or ""."""

    def __init__(self, vendor: WireFormat, model: str, headers: Headers, body: bytes) -> None:
        self.vendor = vendor
        self.model = model
        self.headers = headers
        self.body = body
        self.digest = blake2b(model.encode() + body, digest_size=8).hexdigest()
        self.key = header(headers, b"x-api-key") or bearer(headers) or ""


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


_FORMS = Environment(  # noqa: S701 (JSON)
    finalize=_encoded,
    keep_trailing_newline=True,
    loader=FileSystemLoader(Path(__file__).with_name("forms")),
    trim_blocks=True,
    undefined=StrictUndefined,
)
_FORMS.filters["iso_time"] = _iso_time


def filled(form: str, **values: object) -> bytes:
    """Return the text of a template in which each value is encoded as JSON."""
    return _FORMS.get_template(f"{form}.j2").render(values).encode()


def filled_json(form: str, **values: object) -> JsonObject:
    """Return the JSON object of a template in which each value is encoded as JSON."""
    view: JsonObject = msgspec.json.decode(filled(f"{form}.json", **values))
    return view


class _Texts(Protocol):
    @property
    def text(self) -> str: ...


def joined(content: str | Sequence[_Texts] | None) -> str:
    """Return the text of a message's content, which may have parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


def header(headers: Headers, name: bytes) -> str | None:
    """Return the value of a header, named in lower case, or None if it is missing."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def model_in(path: str, pattern: str) -> str:
    """Return the model in a path that ends like ``pattern``, or ""."""
    before, placeholder, after = pattern.partition("{model}")
    start = path.rfind(before)
    fits = placeholder and start >= 0 and path.endswith(after)
    return path[start + len(before) : len(path) - len(after)] if fits else ""


def bearer(headers: Headers) -> str | None:
    """Return the token in the header ``Authorization: Bearer TOKEN``, or None."""
    scheme, _, key = (header(headers, b"authorization") or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens in a string, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
