"""Counts the tokens of a prompt: with a model's own table if there is one, else by estimate.

A table is a file of byte-pair ranks as OpenAI publishes them (``r50k_base.tiktoken``: GPT-3,
``cl100k_base.tiktoken``: GPT-4, ``o200k_base.tiktoken``: GPT-4o), with a token in base64 and its
rank on each line. Its name implies how text is split before pairs are merged. Libraries that know
these tables download them, which does not work offline.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import ceil
from pathlib import Path

import regex

from harness.errors import ConfigError, DataInvalid, nearest

ASCII_PER_TOKEN = 3.5
"""For the estimate, a cautious value: the longest prompts that the authors fitted into GPT-3's
2,048 tokens have 3.7 to 4.4 bytes per token."""
OTHER_BYTES_PER_TOKEN = 1.5
"""For the estimate: letters beyond ASCII have two to four bytes and are often single tokens."""

_LETTERS = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_CLITIC = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_LETTERS[0]}]*[{_LETTERS[1]}]+{_CLITIC}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[{_LETTERS[0]}]+[{_LETTERS[1]}]*{_CLITIC}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "r50k_base": _R50K,
    "p50k_base": _R50K,
    "cl100k_base": _CL100K,
    "o200k_base": _O200K,
}
"""Name of a table -> the pattern by which its model splits text."""

Counter = Callable[[str], int]


def estimate(text: str) -> int:
    """Estimate the tokens of a text; too many rather than too few."""
    size = len(text.encode("utf-8", "surrogatepass"))
    ascii_only = size if text.isascii() else sum(character < "\x80" for character in text)
    return ceil(ascii_only / ASCII_PER_TOKEN + (size - ascii_only) / OTHER_BYTES_PER_TOKEN)


def counter(table: Path | None) -> Counter:
    """Return a function that counts the tokens of a text: by a model's table, or the estimate."""
    if table is None:
        return estimate
    if table.stem not in SPLITS:
        raise ConfigError(
            f"{table} is not named like a known token table.", nearest(table.stem, SPLITS)
        )
    ranks = _ranks(table)
    pieces = regex.compile(SPLITS[table.stem])
    merged = lru_cache(2**16)(lambda piece: _merged(piece.encode("utf-8", "replace"), ranks))
    return lambda text: sum(merged(piece) for piece in pieces.findall(text))


def _ranks(table: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    with table.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
            except (ValueError, binascii.Error):
                raise DataInvalid(f"{table}, line {number}: not a token and its rank.") from None
    return ranks


def _merged(piece: bytes, ranks: dict[bytes, int]) -> int:
    """Count the tokens of a piece: neighbours are merged, the pair with the lowest rank first."""
    if piece in ranks:
        return 1
    parts = [piece[place : place + 1] for place in range(len(piece))]
    while len(parts) > 1:
        known = [
            (ranks[first + second], place)
            for place, (first, second) in enumerate(pairwise(parts))
            if first + second in ranks
        ]
        if not known:
            break
        place = min(known)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return len(parts)
