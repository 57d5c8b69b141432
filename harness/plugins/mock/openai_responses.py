"""OpenAI's Responses API, with stateless requests and text only."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from harness.plugins.mock.openai import OpenAI, token_logprobs
from harness.plugins.mock.wire import Headers, MockRequest, ReplyChoice, Turn

LOGPROBS = "message.output_text.logprobs"  # in ``include``


class _Part(Struct):
    text: str = ""


class _Item(Struct):
    role: str = ""
    content: str | list[_Part] = ""
    type: str = "message"


class _Reasoning(Struct):
    effort: str | None = None
    summary: str | None = None


class _ResponseRequest(Struct):
    model: str
    input: str | list[_Item]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=16)] | None = None  # OpenAI's minimum
    reasoning: _Reasoning | None = None
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
                said = f"Unknown parameter: '{name}'."
                raise self.fail(400, said, "unknown_parameter", name)
        if request.stream or request.background:
            said = "The mock provider does not stream and has no background responses."
            raise self.invalid(said, "unsupported_value")
        items = [_Item("user", request.input)] if isinstance(request.input, str) else request.input
        turns = [Turn(item.role, _text(item)) for item in items if item.type == "message"]
        if request.instructions:
            turns.insert(0, Turn("system", request.instructions))
        reasoning = request.reasoning or _Reasoning()
        return MockRequest(
            digest=digest,
            model=request.model,
            turns=tuple(turns),
            max_tokens=request.max_output_tokens,
            reasons=reasoning.effort != "none",
            shows_reasoning=reasoning.summary is not None,
            logprobs=(request.top_logprobs or 0) if LOGPROBS in request.include else None,
        )

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> dict[str, Any]:
        (choice,) = choices
        reason = {"length": "max_output_tokens"}.get(choice.finish, choice.finish)
        cut = choice.finish in ("length", "content_filter")
        return {
            "id": f"{self.id_prefix}_{request.digest}",
            **self.constants,
            "created_at": int(time.time()),
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": reason} if cut else None,
            "error": None,
            "model": request.model,
            "output": [*_reasoning(request, choice), self.choice(request, choice)],
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

    def choice(self, request: MockRequest, choice: ReplyChoice) -> dict[str, Any]:
        """Return the output item with the answer."""
        part: dict[str, Any] = {"type": "output_text", "text": choice.text, "annotations": []}
        part["logprobs"] = token_logprobs(choice) or []
        if choice.finish == "refusal":
            part = {"type": "refusal", "refusal": choice.text}
        cut = choice.finish in ("length", "content_filter")
        return {
            "id": f"msg_{request.digest}",
            "type": "message",
            "role": "assistant",
            "status": "incomplete" if cut else "completed",
            "content": [part] if choice.text else [],
        }


def _text(item: _Item) -> str:
    content = item.content
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _reasoning(request: MockRequest, choice: ReplyChoice) -> list[dict[str, Any]]:
    """Return a list with the reasoning item, or [] without reasoning."""
    if not choice.reasoning_tokens:
        return []
    shown = [{"type": "summary_text", "text": choice.reasoning}] if request.shows_reasoning else []
    return [{"id": f"rs_{request.digest}", "type": "reasoning", "summary": shown}]
