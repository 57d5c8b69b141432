"""The pytest plug-in, which collects run files as tests, and `harness_run` (docs/check.md).

Every pytest session loads this module if the harness is installed, so it imports no other module of
the harness until it is used.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import harness

if TYPE_CHECKING:
    from harness.results import RunResult


NOTES = pytest.StashKey[list[str]]()
"""Notes on the session's runs, which are shown below the results."""


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


class _ExecutionWarnings(logging.Handler):
    """Issues a warning for each file with code that is executed although it may be foreign.

    Pytest shows warnings of passing tests, too. If they are errors, the file is not executed.
    """

    def emit(self, record: logging.LogRecord) -> None:
        warnings.warn(record.getMessage(), stacklevel=1)


def pytest_configure(config: pytest.Config) -> None:
    """Show which code is executed that a run's folder names."""
    logger = logging.getLogger("harness.execution")
    handler = _ExecutionWarnings()
    logger.addHandler(handler)
    config.add_cleanup(lambda: logger.removeHandler(handler))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for a YAML file named on the command line with ``--harness``, or None."""
    if not parent.config.getoption("harness") or file_path.suffix not in (".yaml", ".yml"):
        return None
    if not parent.session.isinitpath(file_path):  # a folder may hold files that cost money
        return None
    from harness.plugins.pytest.run_files import RunFileCollector

    notes = parent.config.stash.setdefault(NOTES, [])
    return RunFileCollector.from_parent(parent, path=file_path, notes=notes)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show notes on the runs, also on those of passing tests."""
    if notes := config.stash.get(NOTES, []):
        terminalreporter.section("harness")
        for note in notes:
            terminalreporter.line(note)


@pytest.fixture(scope="session")
def harness_run() -> Callable[..., RunResult]:
    """Return `harness.run` without its progress display: a function that runs a run file."""
    return partial(harness.run, progress=False)
