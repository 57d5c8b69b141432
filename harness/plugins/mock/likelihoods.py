"""The simulated model's log-probabilities of given texts, and its tokenizer.

A token's log-probability depends only on the model and on the text up to the token's end, so two
requests that begin with the same text get the same numbers for it.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

from harness.plugins.mock.wire import ReplyChoice, TokenPosition

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
        found = tokenise(text)
        for token in found:
            if self._numbers.setdefault(token, len(self._tokens)) == len(self._tokens):
                self._tokens.append(token)
        return [self._numbers[token] for token in found]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of tokens with these numbers. Unknown numbers are left out."""
        known = range(len(self._tokens))
        return "".join(self._tokens[number] for number in numbers if number in known)
