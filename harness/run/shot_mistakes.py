"""The mistakes of an earlier run, by kind: shots can show how to avoid the most frequent ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.records import Attempt, Score
from harness.store.index import AttemptIndex


class Mistake(NamedTuple):
    """A kind of mistake: a failed score (or outcome), and its reason without the parts that vary.

    For a schema's score, the reason is a keyword that was violated (its ``details.keywords``).
    """

    score: str
    reason: str


_QUOTED = re.compile(
    r"""(?<!\w)'.*?(?:'(?!\w)|\Z)|".*?(?:"|\Z)|“.*?(?:”|\Z)""", re.DOTALL
)  # an apostrophe within a word neither opens nor closes; a cut reason leaves one open
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LIST = re.compile(r"('…'|#)(?:, \1)+")


def masked(reason: str) -> str:
    """Mask a reason: quoted texts as '…' and numbers as #; a list of them counts as one.

    >>> masked("98 of 100 words; lacks 'snow', 'don\\'t'")
    "# of # words; lacks '…'"
    """
    return _LIST.sub(r"\1", _NUMBER.sub("#", _QUOTED.sub("'…'", reason)))


def mistakes_of(attempt: Attempt) -> list[Mistake]:
    """Return the mistakes in an attempt; none if it passed or was not judged."""
    if attempt.passed is not False:
        return []
    failed = [
        Mistake(name, what)
        for name, score in attempt.scores.items()
        if score.passed is False
        for what in _keywords(score) or [masked(score.reason)]
    ]
    return failed or [Mistake(attempt.outcome, masked(attempt.error or ""))]


def _keywords(score: Score) -> list[str]:
    """Return the schema keywords that were violated; none if the score does not list them."""
    counts = score.details.get("keywords")
    if not isinstance(counts, Mapping):
        return []
    return [word for word, count in counts.items() if isinstance(count, int) and count > 0]


class Mistakes:
    """The mistakes of a run's first answers, to choose shots that show how to avoid them."""

    def __init__(self, path: Path) -> None:
        self._of: dict[str, Counter[Mistake]] = {}
        for attempt in AttemptIndex(path, judges=False).read(Attempt):
            if attempt.round == 1 and (found := mistakes_of(attempt)):
                self._of.setdefault(attempt.instance, Counter()).update(found)

    def order(self, ids: Sequence[str]) -> list[str]:
        """Return the instances, those with the most frequent mistakes first.

        The kinds of mistake, most frequent first, contribute an instance each in turn: the one that
        showed the kind most often, then by id. Instances without a mistake follow in their given
        order.
        """
        shown: dict[Mistake, list[tuple[int, str]]] = {}
        for name in ids:
            for kind, count in self._of.get(name, {}).items():
                shown.setdefault(kind, []).append((-count, name))
        frequent = sorted(shown, key=lambda kind: (sum(count for count, _ in shown[kind]), kind))
        waiting = [iter(sorted(shown[kind])) for kind in frequent]
        chosen: dict[str, None] = {}
        while waiting:
            for of_kind in list(waiting):
                new = next((name for _, name in of_kind if name not in chosen), None)
                if new is None:
                    waiting.remove(of_kind)
                else:
                    chosen[new] = None
        return list(dict.fromkeys([*chosen, *ids]))
