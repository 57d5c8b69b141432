"""What went wrong most often in an earlier run, for shots that show how to do it right.

The kind of a mistake is the failed score's name and its reason, without the numbers and
quoted texts that differ from instance to instance; of a schema's score, each keyword that
was violated (its ``details.keywords``, to how often).

>>> masked("98 of 100 words; lacks 'snow', 'don\\'t'")
"# of # words; lacks '…'"
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.records import Attempt, Score
from harness.store.index import AttemptIndex


class Kind(NamedTuple):
    """A kind of mistake.

    score: the name of the failed score, or the outcome of an answer that has no scores.
    reason: the one that was given, masked; or a keyword that was violated.
    """

    score: str
    reason: str


_QUOTED = re.compile(
    r"""(?<!\w)'.*?(?:'(?!\w)|\Z)|".*?(?:"|\Z)|“.*?(?:”|\Z)""", re.DOTALL
)  # an apostrophe within a word neither opens nor closes; a cut reason leaves one open
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LIST = re.compile(r"('…'|#)(?:, \1)+")


def masked(reason: str) -> str:
    """A reason with its quoted texts as '…' and its numbers as #; a list of them is one."""
    return _LIST.sub(r"\1", _NUMBER.sub("#", _QUOTED.sub("'…'", reason)))


def kinds(attempt: Attempt) -> list[Kind]:
    """The kinds of mistake that an attempt shows; none where it passed or was not judged."""
    if attempt.passed is not False:
        return []
    failed = [
        Kind(name, what)
        for name, score in attempt.scores.items()
        if score.passed is False
        for what in _keywords(score) or [masked(score.reason)]
    ]
    return failed or [Kind(attempt.outcome, masked(attempt.error or ""))]


def _keywords(score: Score) -> list[str]:
    """The keywords of a schema that were violated; none of a score that tells of none."""
    counts = score.details.get("keywords")
    if not isinstance(counts, Mapping):
        return []
    return [word for word, count in counts.items() if isinstance(count, int) and count > 0]


class Mistakes:
    """The mistakes of a run's first answers, by instance.

    path: the run's attempts; the last line of an attempt counts.

    Raises: DataInvalid, StoreFailed: as `AttemptIndex`.
    """

    def __init__(self, path: Path) -> None:
        self._of: dict[str, Counter[Kind]] = {}
        for attempt in AttemptIndex(path, judges=False).read(Attempt):
            if attempt.round == 1 and (found := kinds(attempt)):
                self._of.setdefault(attempt.instance, Counter()).update(found)

    def order(self, ids: Sequence[str]) -> list[str]:
        """All of these instances, those first that show what went wrong most often among them.

        The kinds, by how often they come, give an instance each in turn, first the one that
        showed the kind most often, then by id. What made no mistake follows as it stands.
        """
        shown: dict[Kind, list[tuple[int, str]]] = {}
        for name in ids:
            for kind, count in self._of.get(name, {}).items():
                shown.setdefault(kind, []).append((-count, name))
        often = sorted(shown, key=lambda kind: (sum(count for count, _ in shown[kind]), kind))
        waiting = [iter(sorted(shown[kind])) for kind in often]
        chosen: dict[str, None] = {}
        while waiting:
            going_on = []
            for of_kind in waiting:
                new = next((name for _, name in of_kind if name not in chosen), None)
                if new is not None:
                    chosen[new] = None
                    going_on.append(of_kind)
            waiting = going_on
        return [*chosen, *(name for name in ids if name not in chosen)]
