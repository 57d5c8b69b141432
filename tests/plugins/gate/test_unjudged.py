"""Which share of a run's samples lacks a verdict."""

from pathlib import Path

import pytest

from harness.analysis.metrics import PASS_RATE
from harness.plugins.gate.unjudged import unjudged
from harness.store.run_folder import RunFolder
from tests.conftest import run_file
from tests.plugins.comparisons.written import write_run
from tests.report.attempts import attempt


@pytest.mark.parametrize(("limit", "allowed"), [(0.19, False), (0.2, True), (0.21, True)])
def test_the_share_without_a_verdict_is_of_samples_and_not_of_rounds(
    tmp_path: Path, limit: float, allowed: bool
) -> None:
    """Of 10 samples with three rounds each, the last call of two failed."""
    failed = {"passed": None, "outcome": "error", "text": None, "scores": {}}
    attempts = [
        attempt(f"{n}", 0, round_, **(failed if n < 2 and round_ == 3 else {}))
        for n in range(10)
        for round_ in (1, 2, 3)
    ]
    folder = RunFolder(tmp_path, "run")
    run = write_run(folder.path, "run", attempts)
    folder.write_config(run_file())
    counts = unjudged(folder, run, [PASS_RATE], limit)
    assert (counts.n_samples, counts.failed_calls) == (10, 2)
    assert (counts.no_judgement, counts.final) == (0, 0)
    assert counts.allowed is allowed
