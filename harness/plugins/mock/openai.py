"""OpenAI's chat completions, legacy text completions and responses, with OpenAI's error messages.

OpenAI has no headers for separate limits on input and output tokens. Such limits are enforced, but
not reported. Requests for responses are stateless and have only text.

The log-probability of a token in an echoed text depends only on the model and on the text up to the
token's end, so two requests that begin with the same text get the same numbers for it.
"""

import math
import re
import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from harness.plugins.mock import wire
from harness.plugins.mock.answers import inline
from harness.plugins.mock.wire import (
    ApiError,
    Headers,
    JsonObject,
    Level,
    MockRequest,
    ReplyChoice,
    TokenPosition,
    Turn,
)

END = "<|endoftext|>"  # the tokenizer's only special token
_TOKEN = re.compile(rf"{re.escape(END)}|\s?\w{{1,6}}|\s?[^\w\s]|\s")
_LEAST = 9.0  # log-probabilities of tokens are between about minus this and 0
_GREEDY = 0.25  # share of tokens that are the likeliest at their place
_OTHER = " the"  # likeliest where the text's own token is not


def tokenise(text: str) -> list[str]:
    """Split a text into the simulated model's tokens, which give the text again when joined.

    >>> tokenise("Is 7 prime? Surely.")
    ['Is', ' 7', ' prime', '?', ' Surely', '.']
    """
    return _TOKEN.findall(text)


def scored(model: str, text: str) -> ReplyChoice:
    """Return a choice that echoes a text with log-probabilities, plus one generated token."""
    seen = blake2b(model.encode(), digest_size=8)
    positions = []
    for token in [*tokenise(text), _OTHER]:
        seen.update(token.encode("utf-8", "replace") + b"\0")
        drawn = int.from_bytes(seen.digest(), "big") / 2**64
        logprob = -0.01 - _LEAST * drawn
        best = (token, logprob) if drawn < _GREEDY else (_OTHER, logprob / 2)
        positions.append(TokenPosition(token, logprob, (best,)))
    return ReplyChoice(_OTHER, "length", positions=tuple(positions), echo=text)


class Vocabulary:
    """The numbers of tokens, in the order of first use."""

    def __init__(self) -> None:
        self._numbers = {END: 0}
        self._tokens = [END]

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's tokens."""
        tokens = tokenise(text)
        for token in tokens:
            if self._numbers.setdefault(token, len(self._tokens)) == len(self._tokens):
                self._tokens.append(token)
        return [self._numbers[token] for token in tokens]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of tokens with these numbers. Unknown numbers are left out."""
        valid = range(len(self._tokens))
        return "".join(self._tokens[number] for number in numbers if number in valid)


DEFAULT_MAX_TOKENS = 16  # OpenAI's default for a legacy completion

# The one value of each parameter that is accepted even by a model that rejects the parameter.
_ONLY_VALUES = {"temperature": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0}

_N = Annotated[int, Meta(ge=1, le=128)]
_Positive = Annotated[int, Meta(ge=1)]


class _Part(Struct):
    type: str = "text"
    text: str = ""


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None


class _ChatRequest(Struct):
    model: str
    messages: Annotated[list[_Message], Meta(min_length=1)]
    n: _N | None = None
    max_tokens: _Positive | None = None
    max_completion_tokens: _Positive | None = None
    stop: str | list[str] | None = None
    reasoning_effort: str | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    stream: bool | None = None


class _CompletionRequest(Struct):
    model: str
    prompt: str | Annotated[list[str | list[int]], Meta(min_length=1)]
    n: _N | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    stop: str | list[str] | None = None
    echo: bool | None = None
    suffix: str | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    stream: bool | None = None


class OpenAI(wire.WireFormat):
    """The common part of OpenAI's formats: keys, headers, errors, model list and token usage."""

    vendor = "openai"
    id_prefix: ClassVar[str]
    constants: ClassVar[Mapping[str, str]]

    def models(self, names: Collection[str]) -> JsonObject:
        """Return the JSON object that lists the models."""
        models = [{"id": n, "object": "model", "created": 0, "owned_by": "mock"} for n in names]
        return {"object": "list", "data": models}

    def reset(self, seconds: float) -> str:
        """Convert seconds to OpenAI's notation, ``20ms``, ``1.5s`` or ``6m0s``, rounded up."""
        milliseconds = math.ceil(seconds * 1000)
        if 0 < milliseconds < 1000:
            return f"{milliseconds}ms"
        minutes, rest = divmod(milliseconds, 60_000)
        return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"

    def error(self, error: ApiError, request_id: str) -> JsonObject:
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        described = error_object(error.message, error.kind or kind, error.code, error.param)
        return {"error": described}

    def check_key(self, headers: Headers, key: str) -> None:
        sent = wire.bearer(headers)
        if sent is None:
            raise ApiError(401, "You didn't provide an API key. Send Authorization: Bearer KEY.")
        if sent != key:
            raise ApiError(401, "Incorrect API key provided.", "invalid_api_key")

    def refused(self, parameter: str, value: object) -> ApiError | None:
        only = _ONLY_VALUES.get(parameter)
        if value == only:
            return None
        if only is not None:
            message = f"Unsupported value: '{parameter}' does not support {value} with this model. "
            message += f"Only the default ({only}) value is supported."
            return ApiError(400, message, "unsupported_value", parameter)
        message = self.texts.refused.format(parameter=parameter)
        if parameter == "max_tokens":
            message += " Use 'max_completion_tokens' instead."
        return ApiError(400, message, "unsupported_parameter", parameter)

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> ApiError:
        unit = "tokens" if level and level.unit != "requests" else "requests"
        message = f"Rate limit reached for {model} on {unit} per min ({unit[0].upper()}PM)"
        if level:
            message += f": Limit {level.limit}, Used {level.used}, Requested {level.wanted}"
        message += "."
        if retry_after:
            message += f" Please try again in {self.reset(retry_after)}."
        return ApiError(429, message, "rate_limit_exceeded", kind=unit, retry_after=retry_after)

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> JsonObject:
        read = request.prompt_tokens
        written = sum(choice.tokens for choice in choices)
        reasoning = sum(choice.reasoning_tokens for choice in choices)
        return {
            "id": f"{self.id_prefix}-{request.digest}",
            "created": int(time.time()),
            "model": request.model,
            "choices": [
                {"index": index, **self.choice(request, choice)}
                for index, choice in enumerate(choices)
            ],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": written,
                "total_tokens": read + written,
                "completion_tokens_details": {"reasoning_tokens": reasoning},
                "prompt_tokens_details": {"cached_tokens": 0},
            },
            **self.constants,
        }

    @abstractmethod
    def choice(self, request: MockRequest, choice: ReplyChoice) -> JsonObject:
        """Return the JSON object of one choice in a reply, without its index."""


class OpenAIChat(OpenAI):
    """The wire format of ``POST /v1/chat/completions``."""

    path = "/v1/chat/completions"
    id_prefix = "chatcmpl"
    constants: ClassVar = {"object": "chat.completion", "system_fingerprint": "mock"}

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        request = self.decode(body, _ChatRequest)
        if request.stream:
            raise self.invalid("The mock provider does not stream.", "unsupported_value")
        if request.top_logprobs is not None and not request.logprobs:
            problem = "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled."
            raise self.invalid(problem)
        turns = [Turn(turn.role, wire.joined(turn.content)) for turn in request.messages]
        logprobs = (request.top_logprobs or 0) if request.logprobs else None
        return MockRequest(
            digest=digest,
            model=request.model,
            turns=tuple(turns),
            n=request.n or 1,
            max_tokens=request.max_completion_tokens or request.max_tokens,
            stop=_stops(request.stop),
            reasons=request.reasoning_effort != "none",
            logprobs=logprobs,
        )

    def choice(self, request: MockRequest, choice: ReplyChoice) -> JsonObject:
        message: dict[str, object] = {"role": "assistant", "content": choice.text, "refusal": None}
        finish: str = choice.finish
        if finish == "refusal":
            message |= {"content": None, "refusal": choice.text}
            finish = "stop"
        elif choice.reasoning and self.reasoning == "think":
            message["content"] = inline(choice)
        elif choice.reasoning and self.reasoning == "field":
            # DeepSeek's name for it, and OpenRouter's; vLLM knows both.
            message["reasoning_content"] = message["reasoning"] = choice.reasoning
        tokens = token_logprobs(choice)
        logprobs = None if tokens is None else {"content": tokens, "refusal": None}
        return {"message": message, "finish_reason": finish, "logprobs": logprobs}


class OpenAICompletions(OpenAI):
    """The wire format of ``POST /v1/completions``, including several prompts and echoes."""

    path = "/v1/completions"
    vocabulary: ClassVar = Vocabulary()  # prompts may be lists of its token numbers
    id_prefix = "cmpl"
    constants: ClassVar = {"object": "text_completion"}

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        request = self.decode(body, _CompletionRequest)
        if request.suffix or request.stream or request.max_tokens == 0:
            problem = "The mock provider does not support 'suffix', 'stream' and length 0."
            raise self.invalid(problem, "unsupported_parameter")
        prompts = []
        for prompt in [request.prompt] if isinstance(request.prompt, str) else request.prompt:
            text = prompt if isinstance(prompt, str) else self.vocabulary.decode(prompt)
            prompts.append(text)
        echoed: list[str] = []
        alone: list[str] = []
        if request.echo:
            if request.logprobs is None or request.max_tokens != 1:
                problem = "The mock provider supports 'echo' only with 'logprobs' and "
                raise self.invalid(f"{problem}'max_tokens': 1.", "unsupported_parameter")
            echoed = prompts
        elif len(prompts) > 1:
            if request.logprobs is not None:
                problem = "The mock provider supports 'logprobs' only for one prompt."
                raise self.invalid(problem, "unsupported_parameter")
            alone = prompts
        return MockRequest(
            digest=digest,
            model=request.model,
            turns=tuple(Turn("user", prompt) for prompt in prompts),
            n=request.n or 1,
            max_tokens=request.max_tokens or DEFAULT_MAX_TOKENS,
            stop=_stops(request.stop),
            logprobs=request.logprobs,
            echoed=tuple(echoed),
            prompts=tuple(alone),
        )

    def choice(self, request: MockRequest, choice: ReplyChoice) -> JsonObject:
        text = inline(choice) if self.reasoning == "think" else choice.text
        # A text completion can only refuse in its text.
        finish = "stop" if choice.finish == "refusal" else choice.finish
        logprobs = _completion_logprobs(request.prompt, choice)
        return {"text": choice.echo + text, "finish_reason": finish, "logprobs": logprobs}


def error_object(
    message: str,
    kind: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
) -> JsonObject:
    """Return an error object in OpenAI's form. ``kind`` is the value of its ``type``."""
    return {"message": message, "type": kind, "param": param, "code": code}


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def token_logprobs(choice: ReplyChoice) -> list[JsonObject] | None:
    """Return the log-probabilities at each position, or None if the request asks for none."""
    if choice.positions is None:
        return None
    tokens = []
    for position in choice.positions:
        likeliest = [_token(*likely) for likely in position.likeliest]
        tokens.append(_token(position.token, position.logprob) | {"top_logprobs": likeliest})
    return tokens


def _token(token: str, logprob: float) -> dict[str, object]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8", "replace"))}


def _completion_logprobs(prompt: str, choice: ReplyChoice) -> Mapping[str, object] | None:
    if choice.positions is None:
        return None
    tokens = []
    offsets = []
    logprobs: list[float | None] = []
    top: list[Mapping[str, float] | None] = []
    offset = 0 if choice.echo else len(prompt)
    for position in choice.positions:
        tokens.append(position.token)
        offsets.append(offset)
        offset += len(position.token)
        if choice.echo and not logprobs:  # nothing precedes its first token
            logprobs.append(None)
            top.append(None)
            continue
        logprobs.append(position.logprob)
        # The chosen token is always included, likely or not.
        top.append({**dict(position.likeliest), position.token: position.logprob})
    return {
        "tokens": tokens,
        "token_logprobs": logprobs,
        "top_logprobs": top,
        "text_offset": offsets,
    }


LOGPROBS = "message.output_text.logprobs"  # in ``include``
# The reasons of incomplete responses, by finish reason.
INCOMPLETE: Mapping[str, str] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}


class _InputPart(Struct):
    text: str = ""


class _Item(Struct):
    role: str = ""
    content: str | list[_InputPart] = ""
    type: str = "message"


class _ReasoningRequest(Struct):
    effort: str | None = None
    summary: str | None = None


class _ResponseRequest(Struct):
    model: str
    input: str | list[_Item]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=16)] | None = None  # OpenAI's minimum
    reasoning: _ReasoningRequest | None = None
    include: tuple[str, ...] = ()
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    stream: bool | None = None
    background: bool | None = None
    stop: object = None
    seed: object = None


class OpenAIResponses(OpenAI):
    """The wire format of ``POST /v1/responses``."""

    path = "/v1/responses"
    id_prefix = "resp"
    constants: ClassVar = {"object": "response"}

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        request = self.decode(body, _ResponseRequest)
        for name in ("stop", "seed"):
            if getattr(request, name) is not None:
                problem = f"Unknown parameter: '{name}'."
                raise ApiError(400, problem, "unknown_parameter", name)
        if request.stream or request.background:
            problem = "The mock provider does not stream and has no background responses."
            raise self.invalid(problem, "unsupported_value")
        turns = []
        if request.instructions:
            turns.append(Turn("system", request.instructions))
        items = request.input
        if isinstance(items, str):
            items = [_Item("user", items)]
        for item in items:
            if item.type == "message":
                turns.append(Turn(item.role, wire.joined(item.content)))
        reasoning = request.reasoning or _ReasoningRequest()
        return MockRequest(
            digest=digest,
            model=request.model,
            turns=tuple(turns),
            max_tokens=request.max_output_tokens,
            reasons=reasoning.effort != "none",
            shows_reasoning=reasoning.summary is not None,
            logprobs=(request.top_logprobs or 0) if LOGPROBS in request.include else None,
        )

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> JsonObject:
        (choice,) = choices
        reason = INCOMPLETE.get(choice.finish)
        return {
            "id": f"{self.id_prefix}_{request.digest}",
            **self.constants,
            "created_at": int(time.time()),
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "error": None,
            "model": request.model,
            "output": [*_reasoning_items(request, choice), self.choice(request, choice)],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "store": False,
            "usage": {
                "input_tokens": request.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": choice.tokens,
                "output_tokens_details": {"reasoning_tokens": choice.reasoning_tokens},
                "total_tokens": request.prompt_tokens + choice.tokens,
            },
        }

    def choice(self, request: MockRequest, choice: ReplyChoice) -> JsonObject:
        """Return the output item with the answer."""
        part: JsonObject = {"type": "output_text", "text": choice.text, "annotations": []}
        part["logprobs"] = token_logprobs(choice) or []
        if choice.finish == "refusal":
            part = {"type": "refusal", "refusal": choice.text}
        return {
            "id": f"msg_{request.digest}",
            "type": "message",
            "role": "assistant",
            "status": "incomplete" if choice.finish in INCOMPLETE else "completed",
            "content": [part] if choice.text else [],
        }


def _reasoning_items(request: MockRequest, choice: ReplyChoice) -> list[JsonObject]:
    """Return a list with the reasoning item, or [] without reasoning."""
    if not choice.reasoning_tokens:
        return []
    summary = []
    if request.shows_reasoning:
        summary.append({"type": "summary_text", "text": choice.reasoning})
    return [{"id": f"rs_{request.digest}", "type": "reasoning", "summary": summary}]
