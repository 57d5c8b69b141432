"""Comparisons of runs by pass@k, pass^k and any@k."""

import pytest

from harness.analysis.summary import RunFacts, summarise
from harness.errors import ConfigError, RunConflict
from harness.plugins.comparisons.comparable import Run, common_score
from harness.plugins.comparisons.run_comparison import ComparisonOptions, compare_runs
from harness.store.calls import NO_CALLS
from tests.analysis.test_pass_at_k import FOUR, LAST, Verdicts, of
from tests.plugins.comparisons.variants import variant


def run(name: str, instances: list[Verdicts], measure: str | None = None) -> Run:
    table = of(instances)
    facts = RunFacts(run=name, task="toys", measure=measure)
    metrics = summarise(table, NO_CALLS, facts, grouped=False)
    changes = {"measure": measure, "scores": metrics.scores, "n_attempts": len(table)}
    return variant(name, {}, **changes), table  # type: ignore[arg-type]


def test_each_run_by_its_own_measure() -> None:
    runs = [run("retried", FOUR, "pass@4"), run("taught", LAST)]
    found = compare_runs(runs, ComparisonOptions(score=""))
    (other,) = found.others
    assert found.asked.score == "pass@4 and pass_rate"
    assert other.marks == ["pass rate against pass@4"]
    overall = other.overall
    assert (overall.n, overall.not_judged) == (12, 2)  # two have three verdicts: never 0
    assert [overall.first, overall.second] == pytest.approx([0.75, 8 / 12])
    assert (overall.better, overall.worse, overall.method) == (0, 1, "exact McNemar")
    plain = compare_runs(runs, ComparisonOptions()).others[0]
    assert plain.overall.n == 14
    assert plain.overall.first == pytest.approx((9 / 4 + 2) / 14)
    assert plain.marks == []


def test_estimates_are_not_verdicts() -> None:
    several = run("several", [[True, False, False], [True, True, False], [False] * 3] * 12)
    fewer = run("fewer", [[False] * 3, [True, True, False], [True, False, False]] * 12)
    (other,) = compare_runs([several, fewer], ComparisonOptions(score="pass@2")).others
    assert other.overall.first == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert other.overall.method == "clustered paired t"
    assert other.overall.ci95 is not None


@pytest.mark.parametrize("score", ["pass@5", "pass^5", "any@5"])
def test_more_samples_than_there_are(score: str) -> None:
    runs = [run("retried", FOUR), run("again", FOUR)]
    with pytest.raises(ConfigError, match=f"'retried' has no score '{score[:4]}") as refused:
        compare_runs(runs, ComparisonOptions(score=score))
    assert refused.value.remedy == "It needs 5 samples of an instance; this run has 4."


def test_measures_of_other_kinds_do_not_mix() -> None:
    runs = [variant("retried", {}, measure="pass@4"), variant("worded", {}, measure="f1")]
    with pytest.raises(RunConflict, match="different primary metrics: pass@4, f1"):
        common_score(runs)
