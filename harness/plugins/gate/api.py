"""The bounds that options or a run file give, and the decisions on them, in Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.config.validation import validate
from harness.datasets.folder import DataFolder
from harness.engine.run_files import RUN_FILE_SUFFIXES, find_named_run, find_recorded_baseline
from harness.errors import ConfigError
from harness.plugins.gate.decision import Decision, Outcome
from harness.plugins.gate.document import gate_document, gate_line
from harness.plugins.gate.gate import Gate, check_runs
from harness.plugins.gate.section import CheckSection
from harness.results import RunResult, render_document

BOUND_EXAMPLES = {"min": "pass_rate=0.9", "max": "latency_p95=2"}


def read_bounds(option: str, values: Iterable[str] | None) -> dict[str, float]:
    """Return the bounds in a repeatable option's values (``SCORE=BOUND``), by score."""
    by_score = {}
    for text in values or ():
        name, _, value = text.partition("=")
        if not name or not re.fullmatch(r"-?\d*\.?\d+", value):
            remedy = f"Write {option} {BOUND_EXAMPLES[option[-3:]]}."
            if name and (share := re.fullmatch(r"(-?\d*\.?\d+) ?%", value)):
                remedy = f"Write {option} {name}={float(share[1]) / 100:.10g}."
            raise ConfigError(f"{option} {text!r:.60} is not a bound.", remedy)
        by_score[name] = float(value)
    return by_score


def check_section(
    run: RunFile, arguments: Mapping[str, Any], example: str = "--min pass_rate=0.9"
) -> CheckSection:
    """Return the bounds to check.

    If there are none, the error suggests ``example`` as a way to set one.

    If the command line (``arguments``) sets ``min``, ``max`` or ``baseline``, it replaces the
    section ``check`` of ``run``; only the section's ``baseline`` remains the default for
    ``max_drop``. Otherwise, the command line overrides single keys of the section.
    """
    check = {key: value for key, value in arguments.items() if value not in ("", None, {})}
    default = {} if run.check is None else run.check.model_dump()
    baseline = default.get("baseline")
    if baseline and Path(baseline).suffix in RUN_FILE_SUFFIXES:
        default["baseline"] = DataFolder(Path(), run.folder).next_to_run_file(baseline)
    if not check.keys() & {"min", "max", "baseline"}:
        if not default and "max_drop" not in check:
            remedy = f"Set one, such as {example}, or the run file's section 'check'"
            remedy += " (harness docs check)."
            raise ConfigError("There is no bound to check.", remedy)
        check = default | check
    elif "max_drop" in check:
        check = {"baseline": default.get("baseline")} | check
    return validate(CheckSection, check, "check")


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
        find_run = find_named_run if bounds.get("baseline") else find_recorded_baseline
        find = partial(find_run, settings=Settings())
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
        return render_document(gate_document([self.found]), html=True)
