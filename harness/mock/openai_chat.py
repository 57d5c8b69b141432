"""OpenAI chat completions, worded as OpenAI words them.

Refuses streaming: an evaluation reads whole answers. ``stop``, ``n`` and the
maximum of tokens are obeyed, ``reasoning_effort: none`` and ``logprobs``. Other parameters
that shape the text (temperature, seed, response_format, …) change the body's
digest and so the answer, but are not obeyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from harness.mock.logprobs import MOST_CHAT, ChatLogprobs, of_chat
from harness.mock.openai import OpenAI, Usage, stops, usage
from harness.mock.reasoning import Reasoning, inline
from harness.mock.wire import Ask, Choice, Headers, Turn

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
    stop: str | list[str] | None = None
    reasoning_effort: str | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MOST_CHAT)] | None = None
    stream: bool | None = None


class _AnswerMessage(Struct):
    """reasoning_content, reasoning: DeepSeek's name for it and OpenRouter's; vLLM knows both."""

    content: str | None
    refusal: str | None = None
    role: str = "assistant"
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class _AnswerChoice(Struct):
    index: int
    message: _AnswerMessage
    finish_reason: str
    logprobs: ChatLogprobs | None = None


class _Completion(Struct):
    id: str
    created: int
    model: str
    choices: list[_AnswerChoice]
    usage: Usage
    object: str = "chat.completion"
    system_fingerprint: str = "mock"


class OpenAIChat:
    """The wire format of ``POST /v1/chat/completions``."""

    path = "/v1/chat/completions"

    def __init__(self, vendor: OpenAI, reasoning: Reasoning | None = None) -> None:
        self.vendor = vendor
        self._reasoning = reasoning
        self._decoder = msgspec.json.Decoder(_Request)
        self._encoder = msgspec.json.Encoder()

    def read(self, body: bytes, digest: str, headers: Headers) -> Ask:
        """What a body asks for. Raises: Problem (400)."""
        request = self.vendor.decode(self._decoder, body)
        if request.stream:
            raise self.vendor.invalid("The mock provider does not stream.", "unsupported_value")
        if request.top_logprobs is not None and not request.logprobs:
            raise self.vendor.invalid(
                "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled."
            )
        return Ask(
            digest=digest,
            model=request.model,
            turns=tuple(Turn(m.role, _text(m.content)) for m in request.messages),
            n=request.n or 1,
            max_tokens=request.max_completion_tokens or request.max_tokens,
            stop=stops(request.stop),
            reasons=request.reasoning_effort != "none",
            logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        )

    def answer(self, ask: Ask, choices: Sequence[Choice], created: int) -> bytes:
        """The body of a 200."""
        return self._encoder.encode(
            _Completion(
                id=f"chatcmpl-{ask.digest}",
                created=created,
                model=ask.model,
                choices=[self._choice(i, choice) for i, choice in enumerate(choices)],
                usage=usage(ask, choices),
            )
        )

    def _choice(self, index: int, choice: Choice) -> _AnswerChoice:
        if choice.finish == "refusal":
            message = _AnswerMessage(content=None, refusal=choice.text)
            return _AnswerChoice(index, message, "stop", of_chat(choice))
        message = _AnswerMessage(choice.text)
        if choice.reasoning and self._reasoning is Reasoning.THINK:
            message.content = inline(choice)
        elif choice.reasoning and self._reasoning is Reasoning.FIELD:
            message.reasoning_content = message.reasoning = choice.reasoning
        return _AnswerChoice(index, message, choice.finish, of_chat(choice))


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""
