"""The likeliest tokens of each position, in the words of the servers that speak OpenAI's protocol.

A chat completion has ``logprobs.content``, a list with ``top_logprobs`` for each position, each
of these a list of ``{token, logprob}``; a text completion has ``logprobs.top_logprobs``, a
mapping of tokens to numbers for each position. llama.cpp answers a text completion in the form
of a chat. Of a prompt vLLM tells a list with a mapping of token numbers for each position, in
the choice of a text completion and beside the choices of a chat. What is odd is left out, and
never loses the answer.

Sources: OpenAI's API reference; vLLM, llama.cpp (ggml-org/llama.cpp#10783).

>>> logprobs_in({"top_logprobs": [{" yes": -0.1, "no": -2.5}]})
((TokenLogprob(token=' yes', logprob=-0.1), TokenLogprob(token='no', logprob=-2.5)),)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.records import (
    MOST_LOGPROBS,
    MOST_POSITIONS,
    Logprobs,
    PromptLogprobs,
    TokenLogprob,
)

LEAST = -9999.0
"""What servers write for a token that cannot be; minus infinity has no place in JSON."""


def prompt_fields(wanted: bool | None) -> dict[str, Any]:
    """What asks for those of the prompt's own tokens, and of no others: vLLM's own field."""
    return {"prompt_logprobs": 0} if wanted else {}


def chat_fields(n: int | None) -> dict[str, Any]:
    """What asks a chat for the likeliest tokens."""
    return {} if n is None else {"logprobs": True, "top_logprobs": n}


def completion_fields(n: int | None) -> dict[str, Any]:
    """What asks a text completion for them."""
    return {} if n is None else {"logprobs": n}


def logprobs_in(told: object) -> Logprobs | None:
    """What a choice tells in its ``logprobs``; None where that is nothing of the kind.

    A text completion tells one token more where the one that was written is not among the
    likeliest: it stays, at its place.
    """
    if not isinstance(told, dict):
        return None
    positions = told.get("content")
    if not isinstance(positions, list):
        positions = told.get("top_logprobs")
    if not isinstance(positions, list):
        return None
    return tuple(_likeliest(position) for position in positions[:MOST_POSITIONS])


def prompt_logprobs_in(told: object) -> PromptLogprobs | None:
    """What vLLM tells of a prompt's tokens; None where that is nothing of the kind.

    >>> prompt_logprobs_in([None, {"55": {"logprob": -5.5, "rank": 3, "decoded_token": "S"}}])
    (None, TokenLogprob(token='S', logprob=-5.5))
    """
    if not isinstance(told, list):
        return None
    return tuple(_of_prompt(position) for position in told)


def _of_prompt(position: object) -> TokenLogprob | None:
    if not isinstance(position, dict) or not position:
        return None
    told = next(iter(position.values()))  # the prompt's own token comes first
    if not isinstance(told, dict):
        return None
    found = _tokens({told.get("decoded_token"): told.get("logprob")})
    return next(found, None)


def _likeliest(position: object) -> tuple[TokenLogprob, ...]:
    found = sorted(_tokens(position), key=lambda one: -one.logprob)
    return tuple(found[: MOST_LOGPROBS + 1])


def _tokens(position: object) -> Iterator[TokenLogprob]:
    if isinstance(position, dict) and isinstance(told := position.get("top_logprobs"), list):
        pairs = [(one.get("token"), one.get("logprob")) for one in told if isinstance(one, dict)]
    elif isinstance(position, dict):
        pairs = list(position.items())
    else:
        return
    for token, logprob in pairs:
        if not isinstance(logprob, int | float) or isinstance(logprob, bool):
            continue
        if isinstance(token, str) and logprob == logprob:  # NaN is unlike itself
            # A positive one is a rounding error, and a huge one has no exponential.
            yield TokenLogprob(token, float(min(0.0, max(LEAST, logprob))))
