"""How sure the model was of each token, in the two forms that OpenAI's formats have for it.

An answer may bring its distribution; the tokens of any other are its words, each nearly sure.

>>> [position.token for position in positions("Yes, it is.", (), 2)]
['Yes', ',', ' it', ' is', '.']
>>> positions("No.", [{"Yes": -0.1, "No": -2.4}], 2)[0]
Position(token='No', logprob=-2.4, likeliest=(('Yes', -0.1), ('No', -2.4)))
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from harness.mock.wire import Ask, Choice, Position

MOST_CHAT, MOST_COMPLETION = 20, 5
"""Of each position's tokens, as OpenAI has it."""

SURE = 0.98
"""The probability of the tokens of an answer that brings none."""

_TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]+|\s+")
_OTHERS = (" the", " a", ",", ".", " and", "\n", " of", " to", " in", " is", " it", " that", ":")
_MORE_OTHERS = (" for", " was", " on", " as", " with", " be", " at", " by", "-", " this")


class _Token(Struct):
    token: str
    logprob: float
    bytes: list[int]


class _ChatToken(_Token):
    top_logprobs: list[_Token]


class ChatLogprobs(Struct):
    """A chat completion's ``logprobs``."""

    content: list[_ChatToken] | None
    refusal: None = None


class CompletionLogprobs(Struct):
    """A text completion's."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


def positions(
    text: str, distributions: Sequence[Mapping[str, float]], n: int
) -> tuple[Position, ...]:
    """The places of an answer, with the n likeliest tokens of each.

    distributions: log-probabilities by token, one of each position; empty for nearly sure ones.
    """
    if not distributions:
        return tuple(_position(token, _sure(token), n) for token in _TOKEN.findall(text))
    return tuple(_written(text, distributions, n))


def _written(text: str, distributions: Sequence[Mapping[str, float]], n: int) -> Iterator[Position]:
    at = 0
    for distribution in distributions:
        ranked = sorted(distribution, key=lambda token: -distribution[token])
        # What was sampled need not be the likeliest.
        token = next((one for one in ranked if one and text.startswith(one, at)), ranked[0])
        at += len(token) if text.startswith(token, at) else 0
        yield _position(token, distribution, n)


def _sure(token: str) -> dict[str, float]:
    others = [other for other in (*_OTHERS, *_MORE_OTHERS) if other != token]
    shares = {other: (1 - SURE) / 2 ** (rank + 1) for rank, other in enumerate(others)}
    return {word: math.log(share) for word, share in {token: SURE, **shares}.items()}


def _position(token: str, distribution: Mapping[str, float], n: int) -> Position:
    ranked = sorted(distribution.items(), key=lambda pair: -pair[1])
    return Position(token, distribution[token], tuple(ranked[:n]))


def of_chat(choice: Choice) -> ChatLogprobs | None:
    """A chat completion's, of the positions that a choice tells."""
    if choice.positions is None:
        return None
    if choice.finish == "refusal":
        return ChatLogprobs(None)
    return ChatLogprobs(
        [
            _ChatToken(
                *_told(position.token, position.logprob),
                [_Token(*_told(*one)) for one in position.likeliest],
            )
            for position in choice.positions
        ]
    )


def of_completion(ask: Ask, choice: Choice) -> CompletionLogprobs | None:
    """A text completion's: the token that was written is there, likely or not."""
    if choice.positions is None:
        return None
    tokens = [position.token for position in choice.positions]
    before = len(ask.prompt)
    return CompletionLogprobs(
        tokens,
        [position.logprob for position in choice.positions],
        [
            {**dict(position.likeliest), position.token: position.logprob}
            for position in choice.positions
        ],
        [before + sum(map(len, tokens[:rank])) for rank in range(len(tokens))],
    )


def _told(token: str, logprob: float) -> tuple[str, float, list[int]]:
    return token, logprob, list(token.encode("utf-8", "replace"))
