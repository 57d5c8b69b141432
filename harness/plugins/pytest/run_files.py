"""Run files as pytest's tests."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.api import run
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.models import Resources
from harness.engine.preparation import prepare_data
from harness.engine.resolving import build_task, resolve_defaults
from harness.engine.run_files import read_runs
from harness.errors import HarnessError, UserError, command_style
from harness.execution import set_code_permission
from harness.plugins.gate.api import check_section, read_bounds
from harness.plugins.gate.gate import application_answered_at, application_note


class RunFileCollector(pytest.File):
    """A run file, whose runs are collected as tests. ``notes`` receives notes on the runs."""

    def __init__(self, *, notes: list[str], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.notes = notes

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each run."""
        option = self.config.getoption
        too_few = option("harness_too_few")
        try:
            bounds = {
                "min": read_bounds("--harness-min", option("harness_min")),
                "max": read_bounds("--harness-max", option("harness_max")),
                "baseline": option("harness_baseline"),
                "max_drop": option("harness_max_drop"),
                "max_unjudged": option("harness_max_unjudged"),
                "too_few": "pass" if too_few == "skip" else too_few,
            }
            base, runs = read_runs(self.path)
            for run_file in runs.values():
                check_section(run_file, bounds, "--harness-min pass_rate=0.9")
        except HarnessError as error:
            raise self.CollectError(str(error)) from None
        for variant, run_file in runs.items():
            name = variant or base
            options = {"variant": variant, "given": bounds, "notes": self.notes}
            yield RunItem.from_parent(self, name=name, base=base, run=run_file, **options)


class RunItem(pytest.Item):
    """A run as a test, which passes if the run meets its bounds."""

    def __init__(
        self,
        *,
        base: str,
        variant: str,
        run: RunFile,
        given: dict[str, Any],
        notes: list[str],
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.notes = notes
        self.base = base
        self.variant = variant
        self.run = run
        self.given = given

    def runtest(self) -> None:
        """Execute or resume the run. If the check does not pass, raise Broken or skip the test."""
        path = os.path.relpath(self.path, self.config.invocation_params.dir)
        started_at = time.time()
        with command_style(f"harness run {shlex.quote(path)}"):  # pytest has no such options
            self._check_given_bounds()
            ended = run(self.path, variant=self.variant, progress=False)
        answered_at = application_answered_at(ended.folder)
        if answered_at is not None and answered_at < started_at:
            self.notes.append(application_note(ended.name, answered_at))
        checked = ended.check(**self.given)
        if not checked:
            failed = f"\nWhat fails: harness show {ended.name} --failed"
            raise Broken(repr(checked) + failed * (checked.outcome == "failed"))
        if (
            checked.outcome == "too few to tell"
            and self.config.getoption("harness_too_few") == "skip"
        ):
            pytest.skip(repr(checked))

    def _check_given_bounds(self) -> None:
        """Refuse unknown scores in pytest's options, which the run file's checks do not cover."""
        section = check_section(self.run, self.given)
        if section == self.run.check:
            return
        with set_code_permission("allowed"), Resources(Settings()) as resources:
            prepare_data({self.variant: self.run}, self.base, resources)
            run_file = resolve_defaults(self.run)
            task = build_task(run_file, resources.settings)
            section.check_scores(task, run_file.samples, run_file.judge_names)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Describe a failure, without a traceback for broken bounds and the user's mistakes."""
        if isinstance(excinfo.value, Broken | UserError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the run file, no line number, and the name to show above a failure."""
        return self.path, None, self.name


class Broken(Exception):
    """The test failed: a bound is broken, or it is too uncertain whether bounds are met."""
