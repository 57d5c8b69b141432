"""Reads providers' reply bodies, including parts of OpenAI's protocol that several backends share.

Replies have been paid for. A lone surrogate (half an emoji at the end of a truncated answer), an
invalid token count or an invalid log-probability must not lose a reply or cause a second payment.

Sources: the API references of OpenAI, vLLM and llama.cpp (ggml-org/llama.cpp#10783).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from harness import records
from harness.errors import TransientError

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]  # a larger one would overflow a table column

FAILED = {"error", "abort", "cancelled"}  # with these finish reasons, servers have no answer
THINK, END_THINK = "<think>", "</think>"
LEAST_LOGPROB = -9999.0  # sent for an impossible token: JSON has no minus infinity


def read(content: bytes, decoder: msgspec.json.Decoder[T], shape: type[T]) -> T:
    """Decode a JSON body as ``shape``, with any invalid Unicode replaced."""
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        tree = json.loads(content.decode("utf-8", "replace"))
        return msgspec.convert(_encodable(tree), shape)


def _encodable(tree: Any) -> Any:
    if isinstance(tree, str):
        return records.encodable(tree)
    if isinstance(tree, list):
        return [_encodable(item) for item in tree]
    if isinstance(tree, dict):
        return {_encodable(key): _encodable(value) for key, value in tree.items()}
    return tree


def text_of(content: object) -> str:
    """Return the text of a message's content (a string, a list of parts, or None)."""
    if isinstance(content, list):
        return "".join(
            text_of(part.get("text") if isinstance(part, dict) else part) for part in content
        )
    if content is not None and not isinstance(content, str):
        raise ValueError(f"content must be text, not {type(content).__name__}")
    return content or ""


def text_or_none(value: object) -> str | None:
    """Return a value if it is a non-empty string, otherwise None."""
    return value if isinstance(value, str) and value else None


def finish(reason: object) -> str:
    """Return a finish reason (default: ``stop``), or raise TransientError if it is in `FAILED`."""
    found = text_or_none(reason) or "stop"
    if found in FAILED:
        raise TransientError(f"The server ended the answer with {found!r}.", kind="interrupted")
    return found


def counted(usage: object, shape: type[T]) -> T | None:
    """Return token counts decoded as ``shape``, or None if they are missing or invalid."""
    try:
        return msgspec.convert(usage, shape)
    except msgspec.ValidationError:
        return None


def split_think(content: str) -> tuple[str, str | None]:
    """Return a message's answer, and its reasoning (``<think>…</think>``) or None if it has none.

    A block counts only at the very beginning. Some chat templates put the opening tag into the
    prompt, so the content begins inside the reasoning. A closing tag without an opening tag then
    ends the reasoning. If the reasoning was cut off, the answer is empty.
    """
    begun = content.lstrip()
    if begun.startswith(THINK):
        reasoning, closed, answer = begun[len(THINK) :].partition(END_THINK)
    elif END_THINK in content and THINK not in content.partition(END_THINK)[0]:
        reasoning, closed, answer = content.partition(END_THINK)
    else:
        return content, None
    return (answer.lstrip("\n") if closed else ""), reasoning.strip()


# --- Constraints on decoding. A server may ignore an unknown request field and answer freely,
# so a preset lists only what its server's reference promises.

Dialect = Literal["response_format", "response_format_grammar", "structured_outputs", "grammar"]
"""The request-body field that holds a constraint."""

Dialects = Mapping[records.ConstraintKind, Dialect]

SCHEMA: Dialects = {"json_schema": "response_format"}  # of OpenAI and most other providers
_VLLM_NAMES = {"json_schema": "json", "choices": "choice"}  # where they differ from ours


def constrained(constraint: records.DecodingConstraint, dialects: Dialects) -> dict[str, Any]:
    """Return the request-body fields for a constraint, in the server's dialect."""
    match dialects[constraint.kind]:
        case "response_format":
            schema = {"name": "answer", "strict": True, "schema": constraint.json_schema}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case "response_format_grammar":
            return {"response_format": {"type": "grammar", "grammar": constraint.grammar}}
        case "structured_outputs":
            return {"structured_outputs": vllm_constraint(constraint)}
        case "grammar":
            return {"grammar": constraint.grammar}


def vllm_constraint(constraint: records.DecodingConstraint) -> dict[str, Any]:
    kind = constraint.kind
    return {_VLLM_NAMES.get(kind, kind): constraint.given()[kind]}


# --- Log-probabilities. A chat completion has ``logprobs.content``: for each position,
# ``top_logprobs`` with a list of ``{token, logprob}``. A text completion has
# ``logprobs.top_logprobs``: for each position, a mapping of tokens to numbers. llama.cpp returns
# the chat form for text completions, too. For a prompt, vLLM returns a list with a mapping by token
# number for each position.

Pairs = Iterable[tuple[object, object]]  # tokens and their log-probabilities


def logprobs_in(given: object) -> records.Logprobs | None:
    """Return the most likely tokens per position from a choice's ``logprobs``, or None.

    If the chosen token is not among them, a text completion lists it as an extra token.
    """
    for key in ("content", "top_logprobs"):
        positions = given.get(key) if isinstance(given, dict) else None
        if isinstance(positions, list):
            return likeliest(map(_pairs, positions))
    return None


def prompt_logprobs_in(given: object) -> records.PromptLogprobs | None:
    """Return a prompt's tokens and log-probabilities from vLLM's list, or None if missing."""
    return tuple(map(_own, given)) if isinstance(given, list) else None


def likeliest(positions: Iterable[Pairs]) -> records.Logprobs:
    """Return the likeliest tokens, best first, at each of the first `MOST_POSITIONS` positions."""
    ranked = (sorted(tokens(pairs), key=lambda one: -one.logprob) for pairs in positions)
    return tuple(
        tuple(found[: records.MOST_LOGPROBS + 1])
        for found in islice(ranked, records.MOST_POSITIONS)
    )


def tokens(pairs: Pairs) -> Iterator[records.TokenLogprob]:
    """Yield the valid (token, log-probability) pairs, the latter clamped to [-9999, 0]."""
    for token, logprob in pairs:
        if not isinstance(logprob, int | float) or isinstance(logprob, bool):
            continue
        if isinstance(token, str) and logprob == logprob:  # not NaN
            # A positive value is a rounding error; a huge one would overflow the exponential.
            yield records.TokenLogprob(token, float(min(0.0, max(LEAST_LOGPROB, logprob))))


def _own(position: object) -> records.TokenLogprob | None:
    """Return the prompt's own token, which vLLM lists first at each position, or None."""
    own = next(iter(position.values()), None) if isinstance(position, dict) else None
    own = own if isinstance(own, dict) else {}
    return next(tokens([(own.get("decoded_token"), own.get("logprob"))]), None)


def _pairs(position: object) -> Pairs:
    if not isinstance(position, dict):
        return ()
    if not isinstance(top := position.get("top_logprobs"), list):
        return position.items()
    return [(one.get("token"), one.get("logprob")) for one in top if isinstance(one, dict)]
