"""OpenAI's legacy text completions: a prompt in, its continuation out.

Refuses streaming, and what would make the answer another thing than the
continuation alone: echo, suffix. One prompt a request, as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from harness.mock.logprobs import MOST_COMPLETION, CompletionLogprobs, of_completion
from harness.mock.openai import OpenAI, Usage, stops, usage
from harness.mock.reasoning import Reasoning, inline
from harness.mock.wire import Ask, Choice, Headers, Turn

DEFAULT_MAX_TOKENS = 16


class _Request(Struct):
    model: str
    prompt: str
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    stop: str | list[str] | None = None
    echo: bool | None = None
    suffix: str | None = None
    logprobs: Annotated[int, Meta(ge=0, le=MOST_COMPLETION)] | None = None
    stream: bool | None = None


class _AnswerChoice(Struct):
    index: int
    text: str
    finish_reason: str
    logprobs: CompletionLogprobs | None = None


class _Completion(Struct):
    id: str
    created: int
    model: str
    choices: list[_AnswerChoice]
    usage: Usage
    object: str = "text_completion"


class OpenAICompletions:
    """The wire format of ``POST /v1/completions``."""

    path = "/v1/completions"

    def __init__(self, vendor: OpenAI, reasoning: Reasoning | None = None) -> None:
        self.vendor = vendor
        self._reasoning = reasoning
        self._decoder = msgspec.json.Decoder(_Request)
        self._encoder = msgspec.json.Encoder()

    def read(self, body: bytes, digest: str, headers: Headers) -> Ask:
        """What a body asks for. Raises: Problem (400)."""
        request = self.vendor.decode(self._decoder, body)
        for name in ("echo", "suffix", "stream"):
            if getattr(request, name) not in (None, False, ""):
                raise self.vendor.invalid(
                    f"The mock provider does not support '{name}'.", "unsupported_parameter"
                )
        if request.max_tokens == 0:
            raise self.vendor.invalid(
                "You requested a length 0 completion, but you did not set the 'echo' parameter. "
                "That means that we will return no data to you. (HINT: set 'echo' to true in "
                "order for the API to echo back the prompt to you.)"
            )
        return Ask(
            digest=digest,
            model=request.model,
            turns=(Turn("user", request.prompt),),
            n=request.n or 1,
            max_tokens=request.max_tokens or DEFAULT_MAX_TOKENS,
            stop=stops(request.stop),
            logprobs=request.logprobs,
        )

    def answer(self, ask: Ask, choices: Sequence[Choice], created: int) -> bytes:
        """The body of a 200."""
        return self._encoder.encode(
            _Completion(
                id=f"cmpl-{ask.digest}",
                created=created,
                model=ask.model,
                choices=[self._choice(i, ask, choice) for i, choice in enumerate(choices)],
                usage=usage(ask, choices),
            )
        )

    def _choice(self, index: int, ask: Ask, choice: Choice) -> _AnswerChoice:
        text = inline(choice) if self._reasoning is Reasoning.THINK else choice.text
        # A text completion has no way to refuse but to say so.
        finish = "stop" if choice.finish == "refusal" else choice.finish
        return _AnswerChoice(index, text, finish, of_completion(ask, choice))
