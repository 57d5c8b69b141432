"""Bounds of runs in a program."""

import pytest

import harness
from harness.errors import ConfigError
from tests.conftest import ROOT
from tests.engine.test_recorder_crashes import FAILURES, crashing_run, timed_run
from tests.rows import QUICKSTART
from tests.test_api import QUICK

pytestmark = pytest.mark.usefixtures("program_folder")


def test_a_run_is_true_to_its_bounds() -> None:
    run = harness.run(ROOT / QUICKSTART, **QUICK)
    kept, broken = run.check({"pass_rate": 0.5}), run.check({"pass_rate": 0.99})
    assert kept
    assert (bool(broken), broken.outcome) == (False, "failed")
    assert repr(broken).startswith("quickstart: failed: pass_rate 0.")
    assert "failed" in broken._repr_html_()
    unsure = run.check({"pass_rate": run.metrics.pass_rate or 0.0})
    assert (bool(unsure), unsure.outcome) == (False, "too few to tell")
    assert run.check({"pass_rate": run.metrics.pass_rate or 0.0}, too_few="pass")
    assert not run.check({"pass_rate": 0.5}, max={"pass_rate": 0.1, "cost": 1})
    own = run.check(baseline=run, max_drop=0.0)
    assert (own.outcome, list(own.decisions)) == ("passed", [])
    assert "the run is the baseline" in repr(own)
    with pytest.raises(ConfigError, match="no bound"):
        run.check()
    with pytest.raises(ConfigError, match=r"needs max_drop or max\.worse"):
        run.check(baseline=run)


@pytest.mark.parametrize("failing", FAILURES)
def test_a_crash_is_a_verdict_and_a_missing_verdict_breaks_a_bound(failing: str) -> None:
    run = crashing_run(failing)
    is_verdict = bool(FAILURES[failing][1])
    assert bool(run.check({"pass_rate": 0.1})) == is_verdict


@pytest.mark.parametrize("failing", ["hang", "error"])
def test_a_call_that_timed_out_may_have_taken_longer_than_any_bound(failing: str) -> None:
    run = timed_run(failing)
    for bound in (0.25, 100):
        [latency] = run.check(max={"latency_p95": bound}, too_few="pass").decisions
        assert latency.n == 8
        assert (latency.outcome == "failed") == (failing == "hang")
