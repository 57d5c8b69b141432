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
# A larger one would overflow a table column.
TokenCount = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]

STANDARD_TIERS = {"", "auto", "default", "on_demand", "standard", "unspecified"}
NOT_UTF_8 = re.compile(r'(?<!["\udc80-\udcff])[\udc80-\udcff]+(?!["\udc80-\udcff])')
"""Invalid bytes, decoded with ``surrogateescape``, in the middle of a string."""
MIN_LOGPROB = -9999.0  # sent for an impossible token: JSON has no minus infinity


def decode_body(content: bytes, shape: type[T]) -> T:
    """Decode a JSON body as a ``shape``.

    Replaces lone surrogates, and characters that are cut at the beginning or end of a string.

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


def content_text(content: object) -> str:
    """Return the text in a message's content: a string, a list of parts, or None for no text.

    Raises:
        ValueError: If the content has another type.
    """
    if isinstance(content, list):
        return "".join(
            content_text(part.get("text") if isinstance(part, dict) else part) for part in content
        )
    if content is not None and not isinstance(content, str):
        raise ValueError(f"content must be text, not {type(content).__name__}")
    return content or ""


def format_answer(
    text: str, reason: str, calls: Iterable[tuple[object, object]]
) -> tuple[str, str]:
    """Format an answer with its tool calls, if it has any, as one text.

    Args:
        text: The answer's text.
        reason: The finish reason, in the harness's terms.
        calls: The name and arguments of each tool call. Arguments are an object or JSON text. Text
            that is not JSON, such as truncated arguments, is used unchanged.

    Returns:
        The text and the finish reason to record. With tool calls, the text is JSON, and the reason
        ``stop``, which some compatible servers report, becomes ``tool_calls``.
    """
    tool_calls = [{"name": name, "arguments": _parse_arguments(value)} for name, value in calls]
    if not tool_calls:
        return text, reason
    answer: dict[str, object] = {"text": text} if text else {}
    answer["tool_calls"] = _encodable(tool_calls)
    if reason == "stop":
        reason = "tool_calls"
    return json.dumps(answer, ensure_ascii=False), reason


def _parse_arguments(arguments: object) -> object:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def nonempty_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def service_tier(name: object) -> str | None:
    """Return the service tier that a reply reports, in lower case, or None for the standard one."""
    tier = (nonempty_text(name) or "").lower()
    return None if tier in STANDARD_TIERS else tier


def finish_reason(reason: object) -> str:
    """Return an answer's finish reason, or ``stop`` if the server reports none.

    Raises:
        TransientError: If the server interrupted the answer (`records.INTERRUPTIONS`).
    """
    valid_reason = nonempty_text(reason) or "stop"
    if valid_reason in records.INTERRUPTIONS:
        problem = f"The server ended the answer with {valid_reason!r}."
        raise TransientError(problem, kind="interrupted")
    return valid_reason


def decode_usage(usage: object, shape: type[T]) -> T | None:
    """Convert a reply's token counts to a ``shape``, or return None if they are invalid."""
    try:
        return msgspec.convert(usage, shape)
    except msgspec.ValidationError:
        return None


def extract_state(content: bytes, marks: tuple[bytes, ...], *path: str | int) -> str | None:
    """Return an answer with its reasoning as JSON, to send back in the next round.

    Args:
        content: The body of the reply.
        marks: Byte strings, at least one of which occurs in a body with reasoning to send back.
        path: The keys and indices that lead to the answer in the body.

    Returns:
        The answer as the provider returned it, or None if no mark occurs in the body.
    """
    if not any(mark in content for mark in marks):
        return None
    answer = json.loads(content.decode("utf-8", "replace"))
    for step in path:
        answer = answer[step]
    return json.dumps(_encodable(answer))


def read_answers(answers: Iterable[T], read: Callable[[T], records.Reply]) -> list[records.Reply]:
    """Read the one or more answers to one call, and skip those that are unreadable.

    An unreadable answer does not make the others unusable, because they have been paid for. The
    samples of a call are interchangeable, so it does not matter which of them lacks an answer.

    Raises:
        CallError, ValueError, LookupError: The error of ``read`` for the first answer, if no answer
            is readable.
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


def join_samples(
    first: records.Reply, other_replies: Iterable[records.Reply], request: records.Request
) -> records.Reply:
    """Return the first reply with the replies to the request's other samples attached."""
    return replace(first, others=dict(zip(request.others, other_replies, strict=False)))


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

SCHEMA_DIALECTS: Dialects = {"json_schema": "response_format"}  # of OpenAI and most other providers
_VLLM_NAMES = {"json_schema": "json", "choices": "choice"}  # where they differ from ours


def constraint_fields(constraint: records.DecodingConstraint, dialects: Dialects) -> dict[str, Any]:
    """Return the fields of a request body that express a decoding constraint.

    ``dialects`` has the form of the field for each kind of constraint.
    """
    match dialects[constraint.kind]:
        case "response_format":
            return {
                "response_format": {"type": "json_schema", "json_schema": _named_schema(constraint)}
            }
        case "response_format_object":
            return {"response_format": {"type": "json_object", "schema": constraint.json_schema}}
        case "text_format":
            return {"text": {"format": {"type": "json_schema", **_named_schema(constraint)}}}
        case "response_format_grammar":
            return {"response_format": {"type": "grammar", "grammar": constraint.grammar}}
        case "structured_outputs":
            return {"structured_outputs": vllm_constraint(constraint)}
        case "grammar":
            return {"grammar": constraint.grammar}


def _named_schema(constraint: records.DecodingConstraint) -> dict[str, Any]:
    return {"name": "answer", "strict": True, "schema": constraint.json_schema}


def vllm_constraint(constraint: records.DecodingConstraint) -> dict[str, Any]:
    """Return a decoding constraint as the value of vLLM's field ``structured_outputs``."""
    kind = constraint.kind
    return {_VLLM_NAMES.get(kind, kind): constraint.specified_fields()[kind]}


# --- Log-probabilities. A chat completion has ``logprobs.content``: for each position,
# ``top_logprobs`` with a list of ``{token, logprob}``. A text completion has
# ``logprobs.top_logprobs``: for each position, a mapping of tokens to numbers. llama.cpp returns
# the chat form for text completions, too. For a prompt, vLLM returns a list with a mapping by token
# number for each position.

Pairs = Iterable[tuple[object, object]]  # tokens and their log-probabilities


def read_logprobs(logprobs: object) -> records.Logprobs | None:
    """Return the most likely tokens at each position of an answer.

    A text completion also lists the chosen token if it is not among the most likely tokens.

    Args:
        logprobs: The field ``logprobs`` of a choice.

    Returns:
        The tokens with their log-probabilities, or None if the field has no list of positions.
    """
    if not isinstance(logprobs, dict):
        return None
    for key in ("content", "top_logprobs"):
        positions = logprobs.get(key)
        if isinstance(positions, list):
            return rank_tokens(map(_token_pairs, positions))
    return None


def read_prompt_logprobs(logprobs: object) -> records.PromptLogprobs | None:
    """Return the tokens of a prompt with their log-probabilities, as listed by vLLM.

    An invalid entry becomes None. The result is None if ``logprobs`` is not a list.
    """
    if not isinstance(logprobs, list):
        return None
    return tuple(map(_prompt_token, logprobs))


def rank_tokens(positions: Iterable[Pairs]) -> records.Logprobs:
    """Return the most likely tokens at each position, in descending order of log-probability.

    There are at most `MAX_LOGPROB_POSITIONS` positions with `MAX_LOGPROBS` + 1 tokens each.
    """
    ranked = []
    for pairs in islice(positions, records.MAX_LOGPROB_POSITIONS):
        by_rank = sorted(valid_tokens(pairs), key=lambda token: -token.logprob)
        ranked.append(tuple(by_rank[: records.MAX_LOGPROBS + 1]))
    return tuple(ranked)


def valid_tokens(pairs: Pairs) -> Iterator[records.TokenLogprob]:
    """Yield the valid tokens, with log-probabilities clamped to [-9999, 0]."""
    for token, logprob in pairs:
        if not isinstance(logprob, int | float) or isinstance(logprob, bool):
            continue
        if isinstance(token, str) and logprob == logprob:  # not NaN
            # A positive value is a rounding error; a huge one would overflow the exponential.
            yield records.TokenLogprob(token, float(min(0.0, max(MIN_LOGPROB, logprob))))


def _prompt_token(position: object) -> records.TokenLogprob | None:
    """Return the actual token of a prompt, which vLLM lists first, or None if it is invalid."""
    token = next(iter(position.values()), None) if isinstance(position, dict) else None
    if not isinstance(token, dict):
        return None
    return next(valid_tokens([(token.get("decoded_token"), token.get("logprob"))]), None)


def _token_pairs(position: object) -> Pairs:
    if not isinstance(position, dict):
        return ()
    top = position.get("top_logprobs")
    if not isinstance(top, list):
        return position.items()
    return [(token.get("token"), token.get("logprob")) for token in top if isinstance(token, dict)]


async def split_json_lines(chunks: AsyncIterator[bytes], max_bytes: float) -> AsyncIterator[bytes]:
    """Yield the non-empty lines of a JSON Lines file. Only a line feed ends a line.

    A line of more than ``max_bytes`` bytes is cut somewhere after that size, to save memory.
    """
    parts: list[bytes] = []  # of the current line
    size = 0
    async for chunk in chunks:
        *line_ends, next_start = chunk.split(b"\n")
        for line_end in line_ends:
            if size <= max_bytes:
                parts.append(line_end)
            if line := b"".join(parts):
                yield line
            parts = []
            size = 0
        if size <= max_bytes:
            parts.append(next_start)
            size += len(next_start)
    if (line := b"".join(parts)).strip():
        yield line
