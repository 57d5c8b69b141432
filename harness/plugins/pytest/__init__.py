"""The pytest plug-in, which collects run files as tests, and `harness_run` (docs/check.md).

Every pytest session loads this module if the harness is installed, so it imports no other module of
the harness until it is used.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.config.run_file import RunFile
    from harness.results import RunResult


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add this plug-in's options to pytest's command line."""
    group = parser.getgroup("harness", "evaluation runs")
    group.addoption(
        "--harness",
        action="store_true",
        help="run the run files named on the command line, and check their bounds",
    )
    group.addoption(
        "--harness-min",
        action="append",
        default=[],
        metavar="SCORE=BOUND",
        help="minimum of a score, instead of the run file's check: (repeatable)",
    )
    group.addoption(
        "--harness-max",
        action="append",
        default=[],
        metavar="SCORE=BOUND",
        help="maximum of a score, cost, cost_per_sample or latency_p95 (repeatable)",
    )
    group.addoption("--harness-baseline", default="", metavar="RUN", help="run to compare with")
    group.addoption(
        "--harness-max-drop",
        type=float,
        metavar="DROP",
        help="how much the pass rate may fall below the baseline's",
    )
    group.addoption(
        "--harness-max-unjudged",
        type=float,
        metavar="SHARE",
        help="maximum share of samples without a verdict (default: the run file's, or 0)",
    )
    group.addoption(
        "--harness-too-few",
        choices=["fail", "skip", "pass"],
        help="result of a run with too few instances to tell (default: the run file's, or fail)",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for a YAML file named on the command line with ``--harness``, or None."""
    if not parent.config.getoption("harness") or file_path.suffix not in (".yaml", ".yml"):
        return None
    if not parent.session.isinitpath(file_path):  # a folder may hold files that cost money
        return None
    return RunFileCollector.from_parent(parent, path=file_path)


class RunFileCollector(pytest.File):
    """A run file, whose runs are collected as tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each run."""
        from harness.engine.run_files import read_runs
        from harness.errors import HarnessError
        from harness.plugins.gate.bounds import check_section, read_bounds

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
            for run in runs.values():
                check_section(run, bounds, "--harness-min pass_rate=0.9")
        except HarnessError as error:
            raise self.CollectError(str(error)) from None
        for variant, run in runs.items():
            name = variant or base
            options = {"variant": variant, "given": bounds}
            yield RunItem.from_parent(self, name=name, base=base, run=run, **options)


class RunItem(pytest.Item):
    """A run as a test, which passes if the run meets its bounds."""

    def __init__(
        self, *, base: str, variant: str, run: RunFile, given: dict[str, Any], **more: Any
    ) -> None:
        super().__init__(**more)
        self.base = base
        self.variant = variant
        self.run = run
        self.given = given

    def runtest(self) -> None:
        """Execute or resume the run. If the check does not pass, raise Broken or skip the test."""
        from harness.api import run
        from harness.errors import for_command

        path = os.path.relpath(self.path, self.config.invocation_params.dir)
        with for_command(f"harness run {shlex.quote(path)}"):  # pytest has no such options
            self._check_given_bounds()
            ended = run(self.path, variant=self.variant, progress=False)
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
        from harness.config.settings import Settings
        from harness.engine.models import Resources
        from harness.engine.preparation import prepare_data
        from harness.engine.resolving import build_task, resolved
        from harness.execution import executing
        from harness.plugins.gate.bounds import check_section

        section = check_section(self.run, self.given)
        if section == self.run.check:
            return
        with executing(), Resources(Settings()) as resources:
            prepare_data({self.variant: self.run}, self.base, resources)
            run = resolved(self.run)
            task = build_task(run, resources.settings)
            section.check_scores(task, run.samples, run.judge_names)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Describe a failure, without a traceback for broken bounds and the user's mistakes."""
        from harness.errors import UserError

        if isinstance(excinfo.value, Broken | UserError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the run file, no line number, and the name to show above a failure."""
        return self.path, None, self.name


class Broken(Exception):
    """The test failed: a bound is broken, or it is too uncertain whether bounds are met."""


@pytest.fixture(scope="session")
def harness_run() -> Callable[..., RunResult]:
    """Return `harness.engine` without its progress display: a function that runs a run file."""
    from functools import partial

    from harness.api import run

    return partial(run, progress=False)
