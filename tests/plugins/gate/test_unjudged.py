"""Which share of a run's samples lacks a verdict."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.analysis.metrics import PASS_RATE
from harness.plugins.gate.unjudged import unjudged
from harness.records import Outcome, Score
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


@pytest.mark.parametrize("outcome", ["crashed", "refused", "empty", "unparseable", "truncated"])
def test_failures_without_an_answer_lack_the_scores_of_checks(
    tmp_path: Path, outcome: Outcome
) -> None:
    """Of four answers, one has the score, and one passes a check of another score."""
    scores = [{"quality": Score(1.0)}, {"exact": Score(True, True)}, {}, {}]
    attempts = [attempt(str(n), passed=n <= 1, scores=scores[n]) for n in range(4)]
    attempts[2:] = [replace(failed, outcome=outcome) for failed in attempts[2:]]
    folder = RunFolder(tmp_path, "run")
    run = write_run(folder.path, "run", attempts)
    folder.write_config(run_file())
    counts = unjudged(folder, run, ["quality"], 0)
    assert (counts.n, counts.unanswered, counts.allowed) == (2, {outcome: 2}, False)
    assert counts.lacking == "quality"
    assert unjudged(folder, run, ["quality"], 0.5).allowed
    assert unjudged(folder, run, [PASS_RATE], 0).n == 0
