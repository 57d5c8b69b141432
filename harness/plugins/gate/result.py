"""The decisions on a run's bounds, for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.config.settings import Settings
from harness.engine.run_files import run_named
from harness.plugins.gate.bounds import check_section
from harness.plugins.gate.decision import Decision, Outcome
from harness.plugins.gate.document import gate_document, gate_line
from harness.plugins.gate.gate import Gate, check_runs
from harness.results import RunResult, displayed


@dataclass(frozen=True)
class GateResult:
    """The decisions on a run's bounds.

    The object is true if all bounds are met, or if there are too few instances to tell and
    ``too_few`` is "pass". It is false if too many samples have no verdict.
    """

    found: Gate

    @classmethod
    def of(cls, run: RunResult, bounds: Mapping[str, Any]) -> GateResult:
        """Decide on a run, given the keys of the section ``check`` that replace its run file's."""
        section = check_section(run.config, bounds, "min={'pass_rate': 0.9}")
        find = partial(run_named, settings=Settings())
        [gate] = check_runs([(run.folder, section)], find)
        return cls(gate)

    @property
    def outcome(self) -> Outcome:
        """The worst outcome among the decisions: "failed", "too few to tell", or "passed".

        It is not "passed" if too many samples have no verdict.
        """
        return self.found.outcome

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decision on each bound."""
        return self.found.decisions

    def __bool__(self) -> bool:
        return self.found.result == "passed"

    def __repr__(self) -> str:
        return gate_line(self.found)

    def _repr_html_(self) -> str:
        return displayed(gate_document([self.found]), html=True)
