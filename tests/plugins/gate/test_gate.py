"""Decisions of a gate: outcomes, the number of decisions, and how often they are wrong."""

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from pydantic import ValidationError

from harness.analysis.clustered import clustered_rate, share_interval
from harness.analysis.metrics import PASS_RATE
from harness.plugins.comparisons.p_values import needed_instances
from harness.plugins.gate.decision import Decision, decided, needed_verdicts, percentile_interval
from harness.plugins.gate.document import gate_line
from harness.plugins.gate.gate import Gate, check_runs, failing, instances_by
from harness.plugins.gate.section import CheckSection
from harness.plugins.gate.unjudged import Unjudged
from harness.records import NO_ANSWER_IN_TIME, Attempt, Score
from harness.store.files import write_json
from harness.store.run_folder import RunFolder
from tests.analysis.conftest import Make, TableOf
from tests.conftest import run_file
from tests.plugins.comparisons.variants import variant
from tests.plugins.comparisons.written import write_run
from tests.report.attempts import attempt


def figure(value: float, low: float, high: float, bound: float, **more: Any) -> Decision:
    given = {"value": value, "ci95": (low, high), "bound": bound, "n": 100, "stderr": 0.025}
    return Decision(what="pass_rate", **given | more)


@pytest.mark.parametrize(
    ("bound", "outcome"),
    [(0.7, "passed"), (0.75, "passed"), (0.8, "too few to tell"), (0.9, "failed")],
)
def test_the_interval_decides(bound: float, outcome: str) -> None:
    found = decided(figure(0.8, 0.75, 0.85, bound), 1)
    assert found.outcome == outcome
    assert found.needed is None  # at the bound itself, no number of instances tells


def test_several_decisions_need_more() -> None:
    one, many = (decided(figure(0.8, 0.75, 0.85, 0.74), n) for n in (1, 10))
    assert (one.outcome, many.outcome) == ("passed", "too few to tell")
    assert many.needed is not None
    assert many.needed > 100
    assert decided(figure(1.0, 0.9, 1.0, 0.5), 10).ci95 is not None


@pytest.mark.parametrize(("share", "outcome"), [(True, "passed"), (False, "too few to tell")])
def test_only_a_share_is_at_most_1(share: bool, outcome: str) -> None:
    ones = figure(29 / 30, 0.93, 0.999, 1.0, at_most=True, n=30, effective_n=30 if share else None)
    found = decided(ones, 10)
    assert found.ci95 is not None
    assert (found.outcome, found.ci95[1] > 1) == (outcome, not share)


def test_without_an_interval_nothing_is_decided() -> None:
    alone = Decision(what="f1", value=0.5, bound=0.4, n=1)
    assert decided(alone, 1).outcome == "too few to tell"


@pytest.mark.parametrize(("value", "result"), [(1.0, "passed"), (0.0, "too few to tell")])
def test_too_few_never_pass_if_a_value_without_an_interval_breaks_its_bound(
    value: float, result: str
) -> None:
    one = Decision(what="pass_rate", value=value, bound=0.9, n=1)
    assert Gate(variant("run", {}), None, [one], too_few="pass").result == result


def test_the_worst_decision_counts() -> None:
    passed, unsure, failed = (decided(figure(0.8, 0.75, 0.85, b), 1) for b in (0.7, 0.8, 0.9))

    def outcome(*decisions: Decision) -> str:
        return Gate(variant("run", {}), None, decisions).outcome

    assert outcome(passed) == "passed"
    assert outcome(passed, unsure) == "too few to tell"
    assert outcome(unsure, failed) == "failed"


@pytest.mark.parametrize(
    ("bound", "allowed", "outcome"),
    [(0.7, False, "too few to tell"), (0.7, True, "passed"), (0.9, False, "failed")],
)
def test_a_run_with_too_few_verdicts_does_not_pass(
    bound: float, allowed: bool, outcome: str
) -> None:
    lacking = Unjudged(run="run", n_samples=9, failed_calls=2, no_judgement=1, allowed=allowed)
    decision = decided(figure(0.8, 0.75, 0.85, bound), 1)
    assert Gate(variant("run", {}), None, [decision], [lacking]).outcome == outcome


@pytest.mark.parametrize(("least", "outcome"), [(0.01, "passed"), (-0.2, "too few to tell")])
def test_pairs_without_a_verdict_could_change_the_outcome(least: float, outcome: str) -> None:
    more = {"method": "clustered paired t", "not_judged": 20, "bounds": (least, 0.4)}
    decision = decided(figure(0.2, 0.1, 0.3, 0.0, **more), 1)
    allowed = Unjudged(run="run", n_samples=99, failed_calls=0, no_judgement=20, allowed=True)
    gate = Gate(variant("run", {}), None, [decision], [allowed], "pass")
    assert (decision.outcome, gate.outcome, gate.result) == (outcome, outcome, outcome)
    assert ("Too few are judged to tell" in gate_line(gate)) == (outcome != "passed")


def test_the_number_of_instances_that_would_tell() -> None:
    # Fleiss, Levin and Paik 2003, section 2.5: one rate against a known one.
    power = ((1.96 * 0.5 + 0.8416 * sqrt(0.45 * 0.55)) / 0.05) ** 2 + 1 / 0.05
    error = sqrt(0.45 * 0.55 / 100)
    found = decided(figure(0.45, *share_interval(0.45, 100), 0.5, stderr=error, effective_n=100), 1)
    assert found.needed == pytest.approx(power, rel=0.02)
    # 25 clusters of 4 instances, which are worth 25 independent ones.
    clustered = figure(
        0.45, *share_interval(0.45, 25), 0.5, stderr=2 * error, n_clusters=25, effective_n=25
    )
    assert decided(clustered, 1).needed == pytest.approx(4 * power, rel=0.02)
    drop = figure(-0.1, -0.2, 0.0, -0.05, method="clustered paired t", stderr=0.05)
    assert decided(drop, 1).needed == pytest.approx(100 * (2.8016 / 1) ** 2, abs=5)


def test_further_instances_also_make_the_error_more_certain() -> None:
    """100 instances whose error is that of 100 verdicts, but counts as that of 80."""
    error = sqrt(0.45 * 0.55 / 100)
    few = figure(0.45, 0.34, 0.56, 0.5, stderr=error, effective_n=80)
    assert decided(few, 1).needed == 100 + needed_verdicts(0.45, 0.5) - 80


def test_several_decisions_on_shares_have_wider_intervals_and_need_more() -> None:
    rate = figure(0.9, *share_interval(0.9, 100), 0.82, stderr=0.03, effective_n=100)
    alone = decided(rate, 1)
    many = decided(rate, 10)
    assert (alone.outcome, many.outcome) == ("passed", "too few to tell")
    assert many.ci95 == pytest.approx(share_interval(0.9, 100, 10))
    assert many.needed == needed_verdicts(0.9, 0.82, 10) > needed_verdicts(0.9, 0.82)


def test_the_exact_test_of_a_drop_needs_more_than_the_t_test() -> None:
    exact, by_t = (
        decided(figure(-0.1, -0.2, 0.0, -0.05, method=method, stderr=0.05), 1).needed or 0
        for method in ("exact McNemar", "clustered paired t")
    )
    assert exact == by_t + 20  # 1 / 0.05, the continuity correction


def test_against_no_change_a_gate_needs_as_many_instances_as_a_comparison() -> None:
    # Of three equal clusters with a large error: t(2) is more than twice the normal quantile.
    needed = needed_instances(30, 3, 2.0, 2.0)
    more = {"n": 30, "n_clusters": 3, "degrees": 2.0}
    few = figure(-0.1, -0.96, 0.76, 0.0, method="clustered paired t", stderr=0.2, **more)
    assert decided(few, 1).needed == needed
    assert needed > 30 * (2 * 2.8016) ** 2


def test_the_interval_of_a_change_is_not_cut_at_0() -> None:
    change = decided(figure(0.02, 0.001, 0.039, 0.0, method="clustered paired t"), 10)
    assert change.outcome == "too few to tell"


@pytest.mark.parametrize(("bound", "n"), [(0.9, 80), (0.99, 100), (0.995, 35)])
def test_a_rate_at_its_bound_is_rarely_called_broken(bound: float, n: int) -> None:
    chance, wrong = np.random.default_rng(5), 0
    for _ in range(1_000):  # scripts/simulate_statistics.py: more often, in more settings
        one = clustered_rate((chance.random(n) < bound).astype(float), np.arange(n))
        found = Decision(
            what="", value=one.mean, ci95=one.ci95, bound=bound, n=n, effective_n=one.effective_n
        )
        wrong += decided(found, 1).outcome == "failed"
    assert wrong <= 36  # 2.5%, and two standard deviations


MANIFEST = {"schema_version": 1, "run": "run", "task": "sums", "owed": 0}


@pytest.mark.parametrize(
    ("bound", "outcome"), [(1.97, "passed"), (1.9, "too few to tell"), (1.8, "failed")]
)
def test_a_percentile_of_latency_is_between_order_statistics(
    tmp_path: Path, bound: float, outcome: str
) -> None:
    n, q = 200, 0.9
    seconds = [1 + place / n for place in range(1, n + 1)]
    folder = RunFolder(tmp_path, "run")
    calls = [attempt(f"{s}", call_id=f"{s}", latency_s=s) for s in seconds]
    write_run(folder.path, "run", calls)
    write_json(folder.manifest, MANIFEST | {"samples": len(calls)})
    folder.write_config(run_file())
    [gate] = check_runs(
        [(folder, CheckSection(max={"latency_p90": bound}))], lambda name: RunFolder(tmp_path, name)
    )
    [found] = gate.decisions
    assert (found.what, found.outcome, found.bound) == ("latency_p90", outcome, bound)
    assert found.value == pytest.approx(np.percentile(seconds, 90))
    assert found.ci95 is not None
    first, last = (seconds.index(end) + 1 for end in found.ci95)
    # The true percentile is between two order statistics with a binomial probability.
    binomial = scipy.stats.binom(n, q)
    assert 0.94 <= binomial.cdf(last - 1) - binomial.cdf(first - 1) < 0.985
    assert binomial.cdf(first - 1) < 0.03
    assert binomial.sf(last - 1) < 0.03


def test_a_call_that_timed_out_is_within_no_bound(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")
    timed_out = {"outcome": "crashed", "exception": NO_ANSWER_IN_TIME}
    calls = [
        attempt(f"{n}", call_id=f"{n}", latency_s=1.0, **(timed_out if n < 40 else {}))
        for n in range(200)
    ]
    write_run(folder.path, "run", calls)
    write_json(folder.manifest, MANIFEST | {"samples": len(calls)})
    folder.write_config(run_file())
    section = CheckSection(max={"latency_p90": 2.0})  # 20% would have taken longer than 1 s
    [gate] = check_runs([(folder, section)], lambda name: RunFolder(tmp_path, name))
    [found] = gate.decisions
    assert (found.outcome, found.value, found.ci95) == ("failed", None, None)  # above the limit


@pytest.mark.parametrize("bound", [0.5, 0.85, 1.5])
def test_the_interval_of_a_percentile_has_the_bound_if_it_is_open(
    tmp_path: Path, bound: float
) -> None:
    folder = RunFolder(tmp_path, "run")
    seconds = [0.1] * 93 + [0.8] * 4 + [0.9] * 3
    calls = [attempt(f"{n}", call_id=f"{n}", latency_s=s) for n, s in enumerate(seconds)]
    write_run(folder.path, "run", calls)
    write_json(folder.manifest, MANIFEST | {"samples": len(calls)})
    folder.write_config(run_file())
    section = CheckSection(max={"latency_p95": bound})
    [gate] = check_runs([(folder, section)], lambda name: RunFolder(tmp_path, name))
    [found] = gate.decisions
    assert found.ci95 is not None
    assert (found.outcome == "too few to tell") == (found.ci95[0] <= bound < found.ci95[1])


def latency_decision(folder: RunFolder, bound: float) -> Decision:
    section = CheckSection(max={"latency_p90": bound})
    [gate] = check_runs([(folder, section)], lambda name: RunFolder(folder.path.parent, name))
    [decision] = gate.decisions
    return decision


def write_calls(folder: RunFolder, calls: list[Attempt]) -> RunFolder:
    write_run(folder.path, "run", calls)
    write_json(folder.manifest, MANIFEST | {"samples": len(calls)})
    folder.write_config(run_file())
    return folder


def test_the_ends_of_a_latency_interval_are_where_the_decision_changes(tmp_path: Path) -> None:
    seconds = [1 + place / 200 for place in range(200)]
    calls = [attempt(f"{s}", call_id=f"{s}", latency_s=s) for s in seconds]
    folder = write_calls(RunFolder(tmp_path, "run"), calls)
    ends = latency_decision(folder, 1.9).ci95
    assert ends is not None
    low, high = ends
    outcomes = [latency_decision(folder, b).outcome for b in (low - 1e-9, low, high - 1e-9, high)]
    assert outcomes == ["failed", "too few to tell", "too few to tell", "passed"]


def test_calls_for_one_prompt_tell_less_about_latency_than_as_many_prompts(tmp_path: Path) -> None:
    seconds = [1 + place / 20 for place in range(20) for _ in range(10)]
    prompts = [attempt(f"{n}", call_id=f"{n}", latency_s=s) for n, s in enumerate(seconds)]
    samples = [
        attempt(f"{n // 10}", sample=n % 10, call_id=f"{n}", latency_s=s)
        for n, s in enumerate(seconds)
    ]
    apart = latency_decision(write_calls(RunFolder(tmp_path, "apart"), prompts), 1.9)
    together = latency_decision(write_calls(RunFolder(tmp_path, "together"), samples), 1.9)
    assert apart.effective_n is not None
    assert together.effective_n is not None
    assert together.effective_n < apart.effective_n / 4


@pytest.mark.parametrize("decisions", [1, 3, 10])
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_the_interval_of_a_percentile_covers_it_by_the_binomial_distribution(
    q: float, decisions: int
) -> None:
    n = 200_000
    interval = percentile_interval(np.arange(n, dtype=np.float64), q, n, decisions)
    assert interval is not None
    below, above = interval  # the numbers of values below its ends
    # So many of n independent values lie below the true percentile with this probability.
    outside = scipy.stats.binom.cdf(below - 1, n, q) + scipy.stats.binom.sf(above, n, q)
    assert 0.95 < outside * decisions / 0.05 <= 1  # exact intervals are a little too wide


@pytest.mark.parametrize("effective_n", [None, 3.0])  # a single cluster, or few
def test_a_percentile_of_few_has_no_interval(effective_n: float | None) -> None:
    assert percentile_interval(np.arange(5.0), 0.9, effective_n) is None


def test_a_rate_of_0_does_not_break_a_maximum_of_0() -> None:
    """None of 30 answers has the fault, so the exact interval begins at the bound."""
    exact = scipy.stats.binomtest(0, 30).proportion_ci(0.95, method="exact")
    assert exact.low == 0
    decision = figure(0.0, exact.low, exact.high, 0.0, at_most=True, n=30, effective_n=30)
    assert decided(decision, 1).outcome == "too few to tell"


@pytest.mark.parametrize("degrees", [None, 4.5])  # clusters of unequal sizes have fewer
@pytest.mark.parametrize("decisions", [1, 4, 10])
def test_the_t_interval_of_several_decisions_is_bonferronis(
    decisions: int, degrees: float | None
) -> None:
    margin, wider = (
        0.025 * scipy.stats.t.ppf(1 - 0.05 / 2 / number, degrees or 99) for number in (1, decisions)
    )
    decision = decided(figure(0.8, 0.8 - margin, 0.8 + margin, 0.5, degrees=degrees), decisions)
    assert decision.ci95 == pytest.approx((0.8 - wider, 0.8 + wider))


def test_the_cost_per_sample_is_not_that_per_instance(tmp_path: Path) -> None:
    """Three samples of each of four instances, of 0.01 dollars each."""
    calls = [
        attempt(f"{n}", sample, call_id=f"{n}/{sample}", cost_usd=0.01)
        for n in range(4)
        for sample in range(3)
    ]
    folder = write_calls(RunFolder(tmp_path, "run"), calls)
    section = CheckSection(max={"cost_per_sample": 0.011, "cost": 0.13})
    [gate] = check_runs([(folder, section)], lambda name: RunFolder(tmp_path, name))
    values = {decision.what: decision.value for decision in gate.decisions}
    assert values == {"cost_per_sample": pytest.approx(0.01), "cost": pytest.approx(0.12)}
    assert {decision.outcome for decision in gate.decisions} == {"passed"}


def test_a_latency_needs_instances_and_not_calls(tmp_path: Path) -> None:
    """All ten calls of an instance take equally long, so they tell as much as one call."""
    n, samples = 40, 10
    seconds = [1 + place / n for place in range(n)]
    folder = write_calls(
        RunFolder(tmp_path, "run"),
        [
            attempt(f"{place}", sample, call_id=f"{place}/{sample}", latency_s=duration)
            for place, duration in enumerate(seconds)
            for sample in range(samples)
        ],
    )
    within = 38
    decision = latency_decision(folder, seconds[within - 1])
    assert decision.outcome == "too few to tell"
    assert (decision.n, decision.n_clusters) == (n, n)
    assert decision.effective_n == pytest.approx(n)
    assert decision.needed == needed_verdicts(within / n, 0.9)


def test_an_instance_counts_once_however_many_samples_it_has(make: Make, table_of: TableOf) -> None:
    verdicts = {"a": [True, False, True], "b": [False, None, False], "c": [True], "d": [None, None]}
    table = table_of(
        make(name, passed, sample=sample, groups={"kind": "x" if name in "ab" else "y"})
        for name, samples in verdicts.items()
        for sample, passed in enumerate(samples)
    )
    assert instances_by(table, PASS_RATE) == {(): 3}
    assert instances_by(table, PASS_RATE, "kind") == {("x",): 2, ("y",): 1}


def written(folder: Path, name: str, attempts: list[Attempt]) -> RunFolder:
    run = RunFolder(folder, name)
    write_run(run.path, name, attempts)
    write_json(run.manifest, MANIFEST | {"samples": len(attempts)})
    run.write_config(run_file())
    return run


def counted(folder: Path, name: str, bound: float, **keys: Any) -> tuple[Gate, Decision]:
    """A gate of the run "run" with a bound on one figure, and its decision on this figure."""
    section = CheckSection(max={name: bound}, **keys)
    [gate] = check_runs([(RunFolder(folder, "run"), section)], lambda name: RunFolder(folder, name))
    return gate, next(decision for decision in gate.decisions if decision.what == name)


@pytest.mark.parametrize(("bound", "outcome"), [(0, "failed"), (2, "failed"), (3, "passed")])
def test_a_number_of_crashes_is_exact_for_few_rows(
    tmp_path: Path, bound: float, outcome: str
) -> None:
    crash = {"outcome": "crashed", "passed": False}
    written(tmp_path, "run", [attempt(f"row {n}", **(crash if n < 3 else {})) for n in range(12)])
    gate, decision = counted(tmp_path, "crashed", bound, too_few="pass")
    assert (decision.value, decision.outcome, gate.result) == (3, outcome, outcome)
    assert failing(gate, decision) == ["row 0", "row 1", "row 2"]
    assert counted(tmp_path, "truncated", 0)[1].value == 0


def test_a_row_that_passed_in_the_baseline_and_fails_now_is_worse(tmp_path: Path) -> None:
    """Row 0 failed before, row 1 is new, row 2 had one failed sample, and row 4 is better."""
    before = [attempt(f"row {n}", passed=n not in (0, 4)) for n in (0, 2, 3, 4, 5)]
    written(tmp_path, "base", [*before, attempt("row 2", sample=1, passed=False)])
    after = [attempt(f"row {n}", passed=n > 3) for n in range(6)]
    written(tmp_path, "run", [*after, attempt("row 2", sample=1), attempt("row 5", sample=1)])
    gate, decision = counted(tmp_path, "worse", 0, baseline="base")
    assert (decision.value, gate.outcome) == (1, "failed")
    assert failing(gate, decision) == ["row 3"]
    assert counted(tmp_path, "worse", 1, baseline="base")[0].outcome == "passed"
    assert counted(tmp_path, "worse", 0, baseline="run")[0].outcome == "passed"
    with pytest.raises(ValidationError, match="need a baseline"):
        CheckSection(max={"worse": 0})


def test_the_score_of_a_check_named_like_an_outcome_is_that_score(tmp_path: Path) -> None:
    scores = {"crashed": Score(0.25)}
    written(tmp_path, "run", [attempt(f"row {n}", scores=scores) for n in range(12)])
    assert counted(tmp_path, "crashed", 1)[1].value == 0.25
