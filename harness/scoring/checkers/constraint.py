"""Checks text against a constraint written in the run file, in COLLIE's grammar."""

from __future__ import annotations

from typing import Any

from harness.errors import ConfigError, raised_as
from harness.records import Instance, Score
from harness.scoring.constraints.check import check
from harness.scoring.constraints.grammar import read
from harness.scoring.constraints.render import score


class ConstraintChecker:
    """Passes text that satisfies a constraint (`harness.scoring.constraints`).

    Args:
        level: Unit of the whole text: character, word, sentence, paragraph or passage.
        constraint: A base constraint, or several combined by ``logic``.
        targets: The target, or a list of targets nested like the combined constraints.
    """

    def __init__(self, level: str, constraint: dict[str, Any], targets: Any) -> None:
        raw = {"level": level, "constraint": constraint, "targets": targets}
        with raised_as(ConfigError):
            self.specification = read(raw, "The checker 'constraint'")

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False. If False, its reason lists the constraints that fail."""
        return score(check(self.specification, text))


plugin = ConstraintChecker
