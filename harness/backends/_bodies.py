"""Reads providers' reply bodies, including parts of OpenAI's protocol that several backends share.

Replies have been paid for. A reply must therefore not be lost, or paid for again, because it
contains a lone surrogate (half an emoji at the end of a truncated answer), an invalid token count
or an invalid log-probability.

Sources: the API references of OpenAI, vLLM and llama.cpp (ggml-org/llama.cpp#10783).
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from harness import records
from harness.errors import CallError, RequestRejected, TransientError

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]  # a larger one would overflow a table column

STANDARD_TIERS = {"", "auto", "default", "on_demand", "standard", "unspecified"}
NOT_UTF_8 = re.compile(r'(?<!["\udc80-\udcff])[\udc80-\udcff]+(?!["\udc80-\udcff])')
"""Invalid bytes, decoded with ``surrogateescape``, in the middle of a string."""
LEAST_LOGPROB = -9999.0  # sent for an impossible token: JSON has no minus infinity


def read(content: bytes, shape: type[T]) -> T:
    """Decode a JSON body as a ``shape``.

    Lone surrogates, and characters that are cut at the beginning or end of a string, are replaced.

    Raises:
        ValueError, RecursionError: If the body is not JSON, or is too deeply nested.
        RequestRejected: If the body has another encoding than UTF-8.
        MsgspecError: If the body has another shape.
    """
    try:
        return msgspec.json.decode(content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = content.decode("utf-8", "surrogateescape")
        tree = json.loads(text)
        if NOT_UTF_8.search(text):
            error = RequestRejected("The answer is not in UTF-8, the encoding of JSON.")
            error.billed = True
            raise error from None
        return msgspec.convert(_encodable(tree), shape)


def _encodable(tree: Any) -> Any:
    if isinstance(tree, str):
        return records.replace_surrogates(tree)
    if isinstance(tree, list):
        return [_encodable(item) for item in tree]
    if isinstance(tree, dict):
        return {_encodable(key): _encodable(value) for key, value in tree.items()}
    return tree


def text_of(content: object) -> str:
    """Return the text in a message's content, which is a string, a list of parts or None (no text).

    Raises:
        ValueError: For any other content.
    """
    if isinstance(content, list):
        return "".join(
            text_of(part.get("text") if isinstance(part, dict) else part) for part in content
        )
    if content is not None and not isinstance(content, str):
        raise ValueError(f"content must be text, not {type(content).__name__}")
    return content or ""


def with_tool_calls(
    text: str, reason: str, calls: Iterable[tuple[object, object]]
) -> tuple[str, str]:
    """Return the answer as recorded, and its finish reason.

    An answer without tool calls is its text. One with calls is JSON with text and calls, and its
    reason is ``tool_calls`` where a compatible server reports ``stop``.

    Args:
        text: The answer's text.
        reason: Our finish reason of the reply.
        calls: The name and the arguments of each call. Arguments may be an object or JSON text;
            text that is not JSON, such as truncated arguments, is kept.
    """
    tool_calls = [{"name": name, "arguments": _arguments(value)} for name, value in calls]
    if not tool_calls:
        return text, reason
    answer: dict[str, object] = {"text": text} if text else {}
    answer["tool_calls"] = _encodable(tool_calls)
    return json.dumps(answer, ensure_ascii=False), "tool_calls" if reason == "stop" else reason


def _arguments(arguments: object) -> object:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def tier(name: object) -> str | None:
    """Return the service tier that a reply reports, in lower case, or None for the standard one."""
    lower = (text_or_none(name) or "").lower()
    return None if lower in STANDARD_TIERS else lower


def finish(reason: object) -> str:
    """Return an answer's finish reason, or ``stop`` if it has none.

    Raises:
        TransientError: If the reason is in `records.INTERRUPTIONS`.
    """
    ending = text_or_none(reason) or "stop"
    if ending in records.INTERRUPTIONS:
        raise TransientError(f"The server ended the answer with {ending!r}.", kind="interrupted")
    return ending


def usage_of(usage: object, shape: type[T]) -> T | None:
    """Return a reply's token counts as a ``shape``, or None if they are unusable."""
    try:
        return msgspec.convert(usage, shape)
    except msgspec.ValidationError:
        return None


def state_in(content: bytes, marks: tuple[bytes, ...], *path: str | int) -> str | None:
    """Return a reply's answer and reasoning as JSON, to be sent back in the next round.

    Args:
        content: The body.
        marks: Byte strings. A body with reasoning to send back contains at least one of them.
        path: The keys and indices that lead to the answer, which is a list of objects.

    Returns:
        The answer as the provider returned it, or None if the body contains no mark.
    """
    if not any(mark in content for mark in marks):
        return None
    answer = json.loads(content.decode("utf-8", "replace"))
    for step in path:
        answer = answer[step]
    return json.dumps(_encodable(answer))


def readable(answers: Iterable[T], read: Callable[[T], records.Reply]) -> list[records.Reply]:
    """Return the replies in the answers to one call that can be read.

    Answers beside an unreadable one are paid for. The samples of a call are alike, so that it does
    not matter which of them lacks its answer.

    Raises:
        CallError, ValueError, LookupError: As ``read`` does, if no answer can be read.
    """
    replies: list[records.Reply] = []
    failures: list[Exception] = []
    for answer in answers:
        try:
            replies.append(read(answer))
        except (CallError, msgspec.MsgspecError, ValueError, LookupError) as error:
            failures.append(error)
    if not replies:
        raise failures[0]
    return replies


def with_others(
    first: records.Reply, more: Iterable[records.Reply], request: records.Request
) -> records.Reply:
    """Return the first reply, with the replies to the request's other samples."""
    return replace(first, others=dict(zip(request.others, more, strict=False)))


# --- Constraints on decoding. A server may ignore an unknown request field and answer freely,
# so a preset lists only what its server's reference promises.

Dialect = Literal[
    "response_format",
    "response_format_object",
    "text_format",
    "response_format_grammar",
    "structured_outputs",
    "grammar",
]
"""The request-body field, or its form, in which a server expects a decoding constraint."""

Dialects = Mapping[records.ConstraintKind, Dialect]

SCHEMA: Dialects = {"json_schema": "response_format"}  # of OpenAI and most other providers
_VLLM_NAMES = {"json_schema": "json", "choices": "choice"}  # where they differ from ours


def constrained(constraint: records.DecodingConstraint, dialects: Dialects) -> dict[str, Any]:
    """Return a body's fields for a constraint. ``dialects`` names the field for each kind."""
    match dialects[constraint.kind]:
        case "response_format":
            return {"response_format": {"type": "json_schema", "json_schema": _named(constraint)}}
        case "response_format_object":
            return {"response_format": {"type": "json_object", "schema": constraint.json_schema}}
        case "text_format":
            return {"text": {"format": {"type": "json_schema", **_named(constraint)}}}
        case "response_format_grammar":
            return {"response_format": {"type": "grammar", "grammar": constraint.grammar}}
        case "structured_outputs":
            return {"structured_outputs": vllm_constraint(constraint)}
        case "grammar":
            return {"grammar": constraint.grammar}


def _named(constraint: records.DecodingConstraint) -> dict[str, Any]:
    return {"name": "answer", "strict": True, "schema": constraint.json_schema}


def vllm_constraint(constraint: records.DecodingConstraint) -> dict[str, Any]:
    kind = constraint.kind
    return {_VLLM_NAMES.get(kind, kind): constraint.specified_fields()[kind]}


# --- Log-probabilities. A chat completion has ``logprobs.content``: for each position,
# ``top_logprobs`` with a list of ``{token, logprob}``. A text completion has
# ``logprobs.top_logprobs``: for each position, a mapping of tokens to numbers. llama.cpp returns
# the chat form for text completions, too. For a prompt, vLLM returns a list with a mapping by token
# number for each position.

Pairs = Iterable[tuple[object, object]]  # tokens and their log-probabilities


def logprobs_in(logprobs: object) -> records.Logprobs | None:
    """Return the most likely tokens at each position of an answer.

    ``logprobs`` is the field of a choice. The result is None without a usable list.
    A text completion lists the chosen token in addition if it is not among the most likely tokens.
    """
    if not isinstance(logprobs, dict):
        return None
    for key in ("content", "top_logprobs"):
        positions = logprobs.get(key)
        if isinstance(positions, list):
            return likeliest(map(_pairs, positions))
    return None


def prompt_logprobs_in(logprobs: object) -> records.PromptLogprobs | None:
    """Return a prompt's tokens and log-probabilities as listed by vLLM, or None without a list.

    An invalid entry of the list becomes None.
    """
    return tuple(map(_prompt_token, logprobs)) if isinstance(logprobs, list) else None


def likeliest(positions: Iterable[Pairs]) -> records.Logprobs:
    """Return the most likely tokens at each position, starting with the most likely.

    There are at most `MAX_LOGPROBS` + 1 tokens per position, and `MAX_LOGPROB_POSITIONS` positions.
    """
    ranked = []
    for pairs in islice(positions, records.MAX_LOGPROB_POSITIONS):
        by_rank = sorted(tokens(pairs), key=lambda token: -token.logprob)
        ranked.append(tuple(by_rank[: records.MAX_LOGPROBS + 1]))
    return tuple(ranked)


def tokens(pairs: Pairs) -> Iterator[records.TokenLogprob]:
    """Yield the valid pairs of a token and its log-probability, clamped to [-9999, 0]."""
    for token, logprob in pairs:
        if not isinstance(logprob, int | float) or isinstance(logprob, bool):
            continue
        if isinstance(token, str) and logprob == logprob:  # not NaN
            # A positive value is a rounding error; a huge one would overflow the exponential.
            yield records.TokenLogprob(token, float(min(0.0, max(LEAST_LOGPROB, logprob))))


def _prompt_token(position: object) -> records.TokenLogprob | None:
    """Return the prompt's own token, which vLLM lists first, or None if it is invalid."""
    token = next(iter(position.values()), None) if isinstance(position, dict) else None
    if not isinstance(token, dict):
        return None
    return next(tokens([(token.get("decoded_token"), token.get("logprob"))]), None)


def _pairs(position: object) -> Pairs:
    if not isinstance(position, dict):
        return ()
    top = position.get("top_logprobs")
    if not isinstance(top, list):
        return position.items()
    return [(token.get("token"), token.get("logprob")) for token in top if isinstance(token, dict)]


async def json_lines(chunks: AsyncIterator[bytes], longest: float) -> AsyncIterator[bytes]:
    """Yield the non-empty lines of a JSON Lines file. Only a line feed ends a line.

    Of a line with more than ``longest`` bytes, only a beginning with more than ``longest`` bytes is
    yielded, so that no line needs much memory.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if size <= longest:
                parts.append(end)
            if line := b"".join(parts):
                yield line
            parts = []
            size = 0
        if size <= longest:
            parts.append(rest)
            size += len(rest)
    if (line := b"".join(parts)).strip():
        yield line
