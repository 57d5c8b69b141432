"""Checks text against a constraint written in the run file, in COLLIE's grammar.

English text is split as by COLLIE. For text in other scripts, words and sentences are those of
`harness.scoring.text`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from harness.errors import ConfigError, raised_as
from harness.records import Instance, Score
from harness.scoring.constraints.check import UnicodeSplitter, check, splitter
from harness.scoring.constraints.feasible import read
from harness.scoring.constraints.render import score
from harness.scoring.text import MayCountWords, Uncountable, comparable


class ConstraintChecker(MayCountWords):
    """Passes text that satisfies a constraint (`harness.scoring.constraints`).

    Texts are compared in Unicode's normalisation form NFC, and characters are the code points of
    that form. Text whose words or sentences cannot be counted has no verdict.

    Args:
        level: Unit of the whole text: character, word, sentence, paragraph or passage.
        constraint: A base constraint, or several combined by ``logic``.
        targets: The target, or a list of targets nested like the combined constraints.
    """

    def __init__(self, level: str, constraint: dict[str, Any], targets: Any) -> None:
        raw = {"level": level, "constraint": _composed(constraint), "targets": _composed(targets)}
        with raised_as(ConfigError):
            self.specification = read(raw, "The checker 'constraint'")

    @property
    def counts_words(self) -> bool:
        """Whether the constraint divides text into words."""
        bases = [base for base, _ in self.specification.bases()]
        levels = [part.level for base in bases for part in base.within or ()]
        levels += [base.target_level for base in bases]
        return "word" in (*levels, *(base.input_level for base in bases))

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False. If False, its reason lists the constraints that fail.

        The score has no value if the units of the text cannot be counted.
        """
        try:
            return score(check(self.specification, comparable(text), _units()))
        except Uncountable as error:
            return error.score()


def _composed(raw: Any) -> Any:
    if isinstance(raw, str):
        return comparable(raw)
    if isinstance(raw, dict):
        return {key: _composed(value) for key, value in raw.items()}
    return [_composed(value) for value in raw] if isinstance(raw, list) else raw


@cache
def _units() -> UnicodeSplitter:
    return UnicodeSplitter.of(splitter())


plugin = ConstraintChecker
