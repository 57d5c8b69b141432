"""Anthropic messages, worded as Anthropic words them.

Refuses streaming, and parameters that the API does not know: it is strict. The
sampling parameters are known to the older versions of the API alone, and there
not obeyed; nor is ``output_config``. Tools are not called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from harness.mock.anthropic import SAMPLING, WITHOUT_SAMPLING, Anthropic
from harness.mock.reasoning import Reasoning
from harness.mock.wire import Ask, Choice, Headers, Turn

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
}
# Opaque, and only ever sent back.
_SIGNATURE = "bW9jayBwcm92aWRlcjogbm90aGluZyB0byB2ZXJpZnk="

_MISSING = re.compile(r"Object missing required field `(.+?)`(?: - at `\$(.*)`)?$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`(?: - at `\$(.*)`)?$")
_MISTYPED = re.compile(r"(.+?) - at `\$(.*)`$")


class _Block(Struct):
    type: str
    text: str = ""


class _Message(Struct):
    role: str
    content: str | list[_Block]


class _Thinking(Struct):
    type: Literal["adaptive", "enabled", "disabled", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class _Format(Struct, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    schema: dict[str, Raw]


class _OutputConfig(Struct, forbid_unknown_fields=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: _Format | None = None


_NOTHING = Raw(b"null")
_Portion = Annotated[float, Meta(ge=0, le=1)]


class _Request(Struct, forbid_unknown_fields=True):
    """What is only Raw is known and has no effect."""

    model: str
    max_tokens: Annotated[int, Meta(ge=0)]
    messages: list[_Message]
    system: str | list[_Block] | None = None
    stop_sequences: list[str] | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    stream: bool | None = None
    temperature: _Portion | None = None
    top_p: _Portion | None = None
    top_k: int | None = None
    cache_control: Raw = _NOTHING
    container: Raw = _NOTHING
    diagnostics: Raw = _NOTHING
    inference_geo: Raw = _NOTHING
    metadata: Raw = _NOTHING
    service_tier: Raw = _NOTHING
    speed: Raw = _NOTHING
    tool_choice: Raw = _NOTHING
    tools: Raw = _NOTHING
    user_profile_id: Raw = _NOTHING


class _Text(Struct, tag_field="type", tag="text"):
    text: str
    citations: None = None


class _Thought(Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str = _SIGNATURE


class _Refusal(Struct, tag_field="type", tag="refusal"):
    category: None = None
    explanation: None = None


class _OutputDetails(Struct, frozen=True):
    thinking_tokens: int


class _Usage(Struct):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    service_tier: str = "standard"
    output_tokens_details: _OutputDetails | UnsetType = UNSET


class _Answer(Struct, tag_field="type", tag="message"):
    id: str
    model: str
    content: list[_Text | _Thought]
    stop_reason: str
    stop_sequence: str | None
    stop_details: _Refusal | None
    usage: _Usage
    role: str = "assistant"


class AnthropicMessages:
    """The wire format of ``POST /v1/messages``."""

    path = "/v1/messages"

    def __init__(self, vendor: Anthropic, reasoning: Reasoning | None = None) -> None:
        self.vendor = vendor
        self._reasoning = reasoning
        self._decoder = msgspec.json.Decoder(_Request)
        self._encoder = msgspec.json.Encoder()

    def read(self, body: bytes, digest: str, headers: Headers) -> Ask:
        """What a body asks for. Raises: Problem (400)."""
        version = self.vendor.version(headers)
        try:
            request = self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise self.vendor.invalid(_worded(str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"The request body is not valid JSON: {error}"
            raise self.vendor.invalid(message) from None
        self._check(request, version)
        turns = [Turn(m.role, _joined(m.content)) for m in request.messages]
        if request.system:
            turns.insert(0, Turn("system", _joined(request.system)))
        thinking = request.thinking
        return Ask(
            digest=digest,
            model=request.model,
            turns=tuple(turns),
            max_tokens=request.max_tokens,
            stop=tuple(request.stop_sequences or ()),
            reasons=thinking is None or thinking.type != "disabled",
            shows_reasoning=thinking is None or thinking.display != "omitted",
        )

    def _check(self, request: _Request, version: str) -> None:
        if version >= WITHOUT_SAMPLING:
            for name in sorted(SAMPLING):
                if getattr(request, name) is not None:
                    raise self.vendor.unknown_parameter(name)
        if not request.messages:
            raise self.vendor.invalid("messages: at least one message is required")
        last = len(request.messages) - 1
        for number, message in enumerate(request.messages):
            if message.role == "system":
                raise self.vendor.invalid(
                    'messages: Unexpected role "system". The Messages API accepts a top-level '
                    '`system` parameter, not "system" as an input message role.'
                )
            if message.role not in ("user", "assistant"):
                raise self.vendor.invalid(
                    f"messages.{number}.role: Input should be 'user' or 'assistant'"
                )
            if not message.content and not (message.role == "assistant" and number == last):
                raise self.vendor.invalid(
                    f"messages.{number}: all messages must have non-empty content except for the "
                    "optional final assistant message"
                )
            if any(b.type == "text" and not b.text for b in _blocks(message.content)):
                raise self.vendor.invalid("messages: text content blocks must be non-empty")
        if not all(sequence.strip() for sequence in request.stop_sequences or ()):
            raise self.vendor.invalid(
                "stop_sequences: each stop sequence must contain non-whitespace"
            )
        if request.stream:
            raise self.vendor.invalid("The mock provider does not stream.")

    def answer(self, ask: Ask, choices: Sequence[Choice], created: int) -> bytes:
        """The body of a 200."""
        (choice,) = choices
        usage = _Usage(ask.prompt_tokens, choice.tokens)
        if choice.reasoning_tokens:
            usage.output_tokens_details = _OutputDetails(choice.reasoning_tokens)
        reason = "stop_sequence" if choice.stop is not None else _STOP_REASONS[choice.finish]
        return self._encoder.encode(
            _Answer(
                id=f"msg_{ask.digest}",
                model=ask.model,
                content=self._content(ask, choice),
                stop_reason=reason,
                stop_sequence=choice.stop,
                stop_details=_Refusal() if reason == "refusal" else None,
                usage=usage,
            )
        )

    def _content(self, ask: Ask, choice: Choice) -> list[_Text | _Thought]:
        content: list[_Text | _Thought] = []
        if choice.reasoning and self._reasoning is not None:
            # Where the text is not to be shown, the block is there all the same.
            shown = self._reasoning is Reasoning.BLOCKS and ask.shows_reasoning
            content.append(_Thought(choice.reasoning if shown else ""))
        if choice.text:
            content.append(_Text(choice.text))
        return content


def _blocks(content: str | list[_Block]) -> list[_Block]:
    return content if isinstance(content, list) else []


def _joined(content: str | list[_Block]) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if block.type == "text")


def _worded(message: str) -> str:
    """A failed validation as the API words it: the path, then what was to be there."""
    if found := _MISSING.match(message):
        return f"{_path(found[2], found[1])}: Field required"
    if found := _UNKNOWN.match(message):
        return f"{_path(found[2], found[1])}: Extra inputs are not permitted"
    if found := _MISTYPED.match(message):
        return f"{_path(found[2])}: {found[1]}"
    return message


def _path(path: str | None, field: str = "") -> str:
    steps = (path or "").replace("[", ".").replace("]", "").split(".")
    return ".".join(step for step in (*steps, field) if step)
