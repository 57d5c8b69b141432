"""Metrics: by hand, against a plain second computation, and on recorded verdicts."""

from collections import defaultdict
from cProfile import Profile
from itertools import combinations, product
from math import comb
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.breakdown import pass_at_k, pass_hat_k
from harness.analysis.clustered import clustered_mean, share_interval
from harness.analysis.metrics import encode_metrics
from harness.analysis.summary import RunFacts, compute_metrics, summarise
from harness.records import Score, Usage
from harness.store.calls import NO_CALLS
from harness.store.columns import AttemptTable, TableBuilder, TableLine
from harness.store.files import write_json
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import Register, RegisteredJudge, write_register
from harness.store.run_folder import JUDGEMENTS, RunFolder
from tests.analysis.conftest import Make
from tests.conftest import run_file
from tests.store.test_judgements import judgement


def test_no_attempts(summary_of) -> None:
    metrics = summary_of([])
    assert metrics.overall.pass_rate is None
    assert metrics.overall.pass_rate_errors_as_failures is None
    assert (metrics.pass_at_k, metrics.rounds.each, metrics.groups) == ({}, {}, {})
    assert sum(metrics.outcomes.values()) == 0


def test_infrastructure_errors_are_shown_and_not_failures(make, summary_of) -> None:
    metrics = summary_of([make("a", True), make("b", False), make("c", None), make("d", None)])
    assert metrics.overall.pass_rate == 0.5
    assert (metrics.overall.n, metrics.overall.missing) == (2, 2)
    assert metrics.overall.pass_rate_errors_as_failures == 0.25
    assert (metrics.outcomes["ok"], metrics.outcomes["error"]) == (2, 2)


def test_nothing_judged_is_unknown(make, summary_of) -> None:
    metrics = summary_of([make("a", None)])
    assert metrics.overall.pass_rate is None
    assert metrics.overall.pass_rate_errors_as_failures == 0.0
    assert (metrics.pass_at_k, metrics.rounds.each) == ({}, {})


def test_last_round_counts(make, summary_of) -> None:
    metrics = summary_of(
        [
            make("a", True, round=1),
            make("a", False, round=2),
            make("b", False, round=1),
            make("b", True, round=2),
            make("c", True, round=1),
        ]
    )
    assert metrics.overall.pass_rate == pytest.approx(2 / 3)
    assert metrics.overall.pass_rate_errors_as_failures == pytest.approx(2 / 3)
    assert (metrics.n_samples, metrics.n_attempts) == (3, 5)


def test_sample_stopped_on_its_pass_counts_as_passed_later(make, summary_of) -> None:
    metrics = summary_of(
        [
            make("a", True, round=1),
            make("b", False, round=1),
            make("b", True, round=2),
            make("c", False, round=1),
            make("c", False, round=2),
            make("c", False, round=3),
        ]
    )
    rounds = metrics.rounds
    assert rounds.n == {1: 3, 2: 2, 3: 1}
    assert rounds.each == pytest.approx({1: 1 / 3, 2: 1 / 2, 3: 0})
    assert rounds.any_of_first_k == pytest.approx({1: 1 / 3, 2: 2 / 3, 3: 2 / 3})
    assert rounds.any_of_first_k_n == {1: 3, 2: 3, 3: 3}


def test_error_after_a_failure_does_not_raise_the_rate(make, summary_of) -> None:
    metrics = summary_of(
        [
            make("a", True, round=1),
            make("b", False, round=1),
            make("b", None, round=2),
            make("c", None, round=1),
        ]
    )
    rounds = metrics.rounds
    assert rounds.any_of_first_k == {1: 0.5}
    assert rounds.n == {1: 2}


def test_what_a_round_fixed_and_broke(make, summary_of) -> None:
    verdicts = {
        "fixed": (False, True, True),
        "broken": (True, True, False),
        "both": (False, True, False),
        "unknown between": (False, None, True),
        "stopped": (True,),
    }
    rounds = summary_of(
        make(name, passed, round=number)
        for name, row in verdicts.items()
        for number, passed in enumerate(row, start=1)
    ).rounds
    assert rounds.fixed == {2: 2, 3: 0}
    assert rounds.broken == {2: 0, 3: 2}


def test_recorded_rounds_fixed_and_broke(summary_of, recorded) -> None:
    rounds = summary_of(recorded).rounds
    verdicts = defaultdict(dict)
    for attempt in recorded:
        verdicts[attempt.instance][attempt.round] = attempt.passed
    for number in (2, 3, 4):
        changes = [(row[number - 1], row[number]) for row in verdicts.values()]
        assert rounds.fixed[number] == changes.count((False, True)) > 100
        assert rounds.broken[number] == changes.count((True, False)) > 100
        # What a round gained and lost is all that its rate differs by.
        gained = rounds.fixed[number] - rounds.broken[number]
        difference = rounds.each[number] - rounds.each[number - 1]
        assert gained == pytest.approx(difference * len(verdicts))


def test_a_simple_rate_has_the_exact_interval(make, summary_of) -> None:
    alone = summary_of([make("a", True), make("b", False), make("c", False)])
    assert alone.overall.ci95 == pytest.approx(share_interval(1 / 3, 3))
    shared = summary_of(
        [make("a", True), make("b", False, cluster="a"), make("c", False), make("d", True)]
    )
    assert shared.overall.n_clusters == 3
    assert shared.overall.ci95 != pytest.approx(share_interval(0.5, 4))


def test_one_of_six_has_one_interval_as_a_rate_and_as_a_score(make, summary_of) -> None:
    found = summary_of(
        make(f"{n}", n == 0, groups={"kind": "k"}, scores={"exact": Score(n == 0, n == 0)})
        for n in range(6)
    )
    expected = pytest.approx((0.0042, 0.6412), abs=5e-5)
    assert found.overall.ci95 == found.scores["exact"].ci95 == expected
    assert found.pass_at_k_ci95[1] == found.groups["kind"]["k"].scores["exact"].ci95 == expected


def test_cost_of_what_was_solved(make, summary_of) -> None:
    paid = [
        make("a", False, call_id="1", cost_usd=0.5),
        make("a", True, round=2, call_id="2", cost_usd=0.5),
        make("b", False, call_id="3", cost_usd=1.0),
    ]
    metrics = summary_of(paid)
    assert (metrics.n_solved, metrics.cost_per_solved_usd) == (1, 2.0)
    assert summary_of(paid[2:]).cost_per_solved_usd is None
    unknown = summary_of([*paid, make("c", True, call_id="4")])
    assert (unknown.n_solved, unknown.cost_per_solved_usd) == (2, None)


def test_all_of_k_samples(make, summary_of) -> None:
    metrics = summary_of(
        [make("a", sample < 2, sample=sample) for sample in range(3)]
        + [make("b", True, sample=sample) for sample in range(3)]
    )
    assert metrics.pass_hat_k == pytest.approx({1: 5 / 6, 2: (1 / 3 + 1) / 2, 3: 0.5})
    assert metrics.pass_hat_k[1] == pytest.approx(metrics.pass_at_k[1])
    low, high = metrics.pass_hat_k_ci95[3]
    assert low <= metrics.pass_hat_k[3] <= high
    assert metrics.pass_at_k_ci95.keys() == metrics.pass_at_k.keys()


def test_calls_are_counted_once(make, summary_of) -> None:
    usage = Usage(100, 10)
    metrics = summary_of(
        [
            make("a", True, call_id="x", usage=usage, cost_usd=0.25),
            make("b", False, call_id="x", usage=usage, cost_usd=0.25),
            make("c", False, call_id="y", usage=usage, cost_usd=0.5),
        ]
    )
    assert metrics.n_calls == 2
    assert metrics.usage == Usage(200, 20)
    assert metrics.cost_usd == metrics.known_cost_usd == 0.75


def test_unknown_cost_is_not_nothing(make, summary_of) -> None:
    metrics = summary_of(
        [
            make("a", True, call_id="x", usage=Usage(100, 10), cost_usd=0.25),
            make("b", False, call_id="y"),
        ]
    )
    assert metrics.cost_usd is None
    assert (metrics.known_cost_usd, metrics.n_calls_without_cost) == (0.25, 1)
    assert (metrics.usage, metrics.n_calls_without_usage) == (Usage(100, 10), 1)
    assert summary_of([make("b", False, call_id="y")]).usage is None


def test_pass_at_k_is_over_the_instances_with_k_verdicts(make, summary_of) -> None:
    drawn = {"a": [True, False, False], "b": [False, True], "c": [None, None]}
    metrics = summary_of(
        make(name, passed, sample=sample, cluster="p")
        for name, verdicts in drawn.items()
        for sample, passed in enumerate(verdicts)
    )
    assert metrics.pass_at_k == pytest.approx({1: (1 / 3 + 1 / 2) / 2, 2: (2 / 3 + 1) / 2, 3: 1})
    assert metrics.pass_at_k_instances == 2
    assert metrics.pass_at_k_n == {1: 2, 2: 2, 3: 1}
    assert metrics.overall.pass_rate == pytest.approx(2 / 5)


def test_order_of_lines_changes_no_bit(make, summary_of) -> None:
    draw = Random(0)
    attempts = [
        make(
            f"i{instance}",
            draw.random() < 0.3,
            sample=sample,
            cluster=f"p{instance % 40}",
            groups={"kind": f"k{instance % 7}", "odd": str(instance % 2)},
            call_id=f"{instance}/{sample}",
            cost_usd=draw.random(),
        )
        for instance in range(100)
        for sample in range(7)
    ]
    metrics = encode_metrics(summary_of(attempts))
    for _ in range(5):
        draw.shuffle(attempts)
        assert encode_metrics(summary_of(attempts)) == metrics


Row = tuple[str, int, list[bool | None]]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.integers(0, 3),
        st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4),
    ),
    unique_by=lambda row: row[:2],
    min_size=1,
)


@given(ROWS)
def test_agrees_with_plain_loops(make, summary_of, rows: list[Row]) -> None:
    # Instances a and b share a prompt, as do c and d; vowels and consonants are groups.
    metrics = summary_of(
        make(
            name,
            passed,
            sample=sample,
            round=number,
            cluster=str("abcdef".index(name) // 2),
            groups={"kind": "vowel" if name in "ae" else "consonant"},
        )
        for name, sample, verdicts in rows
        for number, passed in enumerate(verdicts, start=1)
    )
    _check(metrics.overall, metrics, rows)
    for kind, letters in (("vowel", "ae"), ("consonant", "bcdf")):
        chosen = [row for row in rows if row[0] in letters]
        if chosen:
            group = metrics.groups["kind"][kind]
            _check(group, group, chosen)


def _check(rate, others, rows: list[Row]) -> None:
    """Rate, pass@k and rounds of some rows, from loops over them."""
    last = [verdicts[-1] for _, _, verdicts in rows if verdicts[-1] is not None]
    assert (rate.n, rate.missing) == (len(last), len(rows) - len(last))
    assert rate.pass_rate == (pytest.approx(sum(last) / len(last)) if last else None)
    of_instance = defaultdict(list)
    for name, _, verdicts in rows:
        if verdicts[-1] is not None:
            of_instance[name].append(verdicts[-1])
    most = max(map(len, of_instance.values()), default=0)
    assert others.pass_at_k == pytest.approx(
        {
            k: sum(
                1 - comb(len(drawn) - sum(drawn), k) / comb(len(drawn), k)
                for drawn in of_instance.values()
                if len(drawn) >= k
            )
            / sum(len(drawn) >= k for drawn in of_instance.values())
            for k in range(1, most + 1)
        }
    )
    for number in range(1, 5):
        each = [row[2][number - 1] for row in rows if len(row[2]) >= number]
        each = [passed for passed in each if passed is not None]
        assert others.rounds.n.get(number, 0) == len(each)
        if each:
            assert others.rounds.each[number] == pytest.approx(sum(each) / len(each))
            first = [[passed for passed in row[2][:number] if passed is not None] for row in rows]
            known = [any(verdicts) for verdicts in first if verdicts]
            assert others.rounds.any_of_first_k[number] == pytest.approx(sum(known) / len(known))
            assert others.rounds.any_of_first_k_n[number] == len(known)


def test_recorded_rounds(summary_of, recorded) -> None:
    metrics = summary_of(recorded)
    rounds = metrics.rounds
    assert [round(rate, 4) for rate in rounds.each.values()] == [0.5125, 0.5125, 0.5216, 0.5043]
    assert [round(rate, 4) for rate in rounds.any_of_first_k.values()] == [
        0.5125,
        0.6154,
        0.6486,
        0.6587,
    ]
    assert (metrics.n_instances, metrics.n_attempts, metrics.n_calls) == (2080, 8320, 4 * 1435)
    assert metrics.n_clusters == 1435


def test_recorded_structures(summary_of, recorded, expected_tables) -> None:
    structures = summary_of(recorded).groups["structure"]
    assert len(structures) == 13
    for number, (name, group) in product(range(1, 5), structures.items()):
        assert group.rounds.each[number] == expected_tables[f"round{number}"][name]


def test_recorded_error_is_twice_the_naive_one(summary_of, recorded) -> None:
    overall = summary_of(attempt for attempt in recorded if attempt.round == 1).overall
    assert overall.pass_rate == 0.5125
    assert overall.naive_stderr == pytest.approx(0.0110, abs=5e-5)
    assert overall.stderr == pytest.approx(0.0229, abs=5e-5)
    assert (overall.n, overall.n_clusters) == (2080, 1435)


def test_clusters_of_the_same_weight(make, summary_of) -> None:
    rows = [make("a", True), make("b", True, cluster="a"), make("c", False), make("d", None)]
    found = summary_of([*rows, make("a", False, sample=1), make("c", False, sample=1)])
    assert found.overall.pass_rate == 2 / 5
    assert found.overall.cluster_rate == pytest.approx((2 / 3 + 0) / 2)
    assert found.overall.cluster_rate_stderr == pytest.approx(1 / 3)
    assert summary_of([make("d", None)]).overall.cluster_rate is None


def test_recorded_mean_over_prompts(summary_of, recorded) -> None:
    found = summary_of(attempt for attempt in recorded if attempt.round == 1)
    assert (found.overall.pass_rate, found.overall.n) == (0.5125, 2080)
    assert round(found.overall.cluster_rate, 4) == 0.4390
    assert round(found.overall.cluster_rate_stderr, 4) == 0.0131
    # A structure's clusters are prompts that have it, so its own mean is over these.
    assert round(found.groups["structure"]["word01"].cluster_rate, 4) == 1


def test_recorded_run_that_stops_on_a_pass_has_the_same_any_of_first_k(
    summary_of, recorded
) -> None:
    done: set[str] = set()
    stopped = []
    for attempt in recorded:
        if attempt.instance not in done:
            stopped.append(attempt)
            if attempt.passed:
                done.add(attempt.instance)
    whole, short = summary_of(recorded), summary_of(stopped)
    assert short.rounds.any_of_first_k == whole.rounds.any_of_first_k
    assert short.overall.pass_rate == whole.rounds.any_of_first_k[4]


def test_scores_have_means_clustered_and_by_group(make, summary_of) -> None:
    values = {"a": (0.0, 0.5), "b": (1.0, 0.25)}
    found = summary_of(
        make(name, True, sample=sample, groups={"kind": name}, scores={"overlap": Score(value)})
        for name, both in values.items()
        for sample, value in enumerate(both)
    )
    mean = found.scores["overlap"]
    expected = clustered_mean(np.array([0.0, 0.5, 1.0, 0.25]), np.array([0, 0, 1, 1]))
    assert (mean.mean, mean.stderr, mean.n, mean.n_clusters) == (
        *(0.4375, pytest.approx(expected.stderr)),
        *(4, 2),
    )
    assert mean.ci95 == expected.ci95
    assert 0 < mean.ci95[0] < mean.ci95[1] < 1
    assert {name: group.scores["overlap"].mean for name, group in found.groups["kind"].items()} == {
        "a": 0.25,
        "b": 0.625,
    }


def test_a_score_that_was_not_made_is_not_zero(make, summary_of) -> None:
    found = summary_of(
        [
            make("a", True, scores={"overlap": Score(0.5)}),
            make("b", None, scores={"overlap": Score(None)}),
            make("c", None),
        ]
    )
    mean = found.scores["overlap"]
    assert (mean.mean, mean.n, mean.missing) == (0.5, 1, 2)


def test_crashes_alone_have_no_pass_rate_if_no_check_gives_verdicts(make, summary_of) -> None:
    quality = {"quality": Score(0.9)}
    answered = make("a", None, outcome="ok", scores=quality)
    crashed = make("b", False, outcome="crashed")
    metrics = summary_of([answered, crashed])
    assert (metrics.overall.pass_rate, metrics.overall.n, metrics.overall.missing) == (None, 0, 2)
    assert (metrics.scores["quality"].n, metrics.outcomes["crashed"]) == (1, 1)
    judged = make("c", True, scores=quality)
    assert summary_of([answered, crashed, judged]).overall.pass_rate == 0.5


def test_grades_have_an_interval_that_is_not_clipped(make, summary_of) -> None:
    found = summary_of(make(str(n), True, scores={"grade": Score(float(n))}) for n in range(1, 11))
    mean = found.scores["grade"]
    low, high = mean.ci95 or (0, 0)
    reference = scipy.stats.ttest_1samp(range(1, 11), 0).confidence_interval()
    assert mean.mean == 5.5
    assert (low, high) == (pytest.approx(reference.low), pytest.approx(reference.high))


def array_work(n_groups: int) -> int:
    """Count the calls into NumPy and the row selections that the metrics of n_groups take."""
    lines = TableBuilder()
    for number in range(n_groups):
        groups = msgspec.Raw(b'{"topic": "%d"}' % number)
        name = f"i{number}"
        lines.add(TableLine(1, name, 0, 1, groups, name, "ok", number % 3 == 0))
    profile, attempts = Profile(), lines.build()[0]
    facts = RunFacts(run="r", task="t")
    found = profile.runcall(summarise, attempts, NO_CALLS, facts)
    assert len(found.groups["topic"]) == n_groups
    taken = AttemptTable.take.__code__
    return sum(
        entry.callcount
        for entry in profile.getstats()
        if entry.code is taken or "numpy" in str(entry.code)
    )


def test_two_thousand_groups_are_computed_together() -> None:
    assert array_work(2_000) == array_work(20)


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_is_the_share_of_choices_with_a_pass(verdicts: list[bool]) -> None:
    n = len(verdicts)
    for k, (estimate,) in enumerate(
        pass_at_k(np.array([n]), np.array([sum(verdicts)]), n), start=1
    ):
        choices = list(combinations(verdicts, k))
        assert estimate == pytest.approx(sum(map(any, choices)) / len(choices), abs=1e-12)


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_pass_hat_is_the_share_of_choices_without_a_failure(verdicts: list[bool]) -> None:
    n = len(verdicts)
    columns = pass_hat_k(np.array([n]), np.array([sum(verdicts)]), n)
    for k, (estimate,) in enumerate(columns, start=1):
        choices = list(combinations(verdicts, k))
        assert estimate == pytest.approx(sum(map(all, choices)) / len(choices), abs=1e-12)


def test_columns_may_be_kept() -> None:
    kept = list(pass_hat_k(np.array([2]), np.array([1]), 2))
    assert np.array(kept).ravel() == pytest.approx([0.5, 0.0])


def test_each_instance_on_its_own() -> None:
    estimates = list(pass_at_k(np.array([4, 2, 3]), np.array([1, 0, 3]), 2))
    assert np.array(estimates) == pytest.approx(np.array([[0.25, 0, 1], [0.5, 0, 1]]))


@given(st.integers(1, 100_000), st.data())
def test_many_samples_neither_overflow_nor_leave_the_unit_interval(
    n: int, data: st.DataObject
) -> None:
    passed = data.draw(st.integers(0, n))
    estimates = np.concatenate(list(pass_at_k(np.array([n]), np.array([passed]), min(n, 500))))
    assert np.all((estimates >= 0) & (estimates <= 1))
    assert np.all(np.diff(estimates) >= 0)
    assert estimates[0] == pytest.approx(passed / n)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="k = 3 needs 3 samples"):
        list(pass_at_k(np.array([5, 2]), np.array([1, 1]), 3))


def test_an_instance_that_passed_in_an_earlier_round_is_solved(make, summary_of) -> None:
    metrics = summary_of(
        [
            make("a", True, round=1, call_id="1", cost_usd=1.0),
            make("a", False, round=2, call_id="2", cost_usd=2.0),
            make("b", False, round=1, call_id="3", cost_usd=1.0),
        ]
    )
    assert metrics.overall.pass_rate == 0
    assert (metrics.n_solved, metrics.cost_per_solved_usd) == (1, 4.0)


@pytest.mark.parametrize(("model_cached", "judge_cached"), list(product((True, False), repeat=2)))
def test_a_run_is_from_the_cache_if_its_models_replies_are(
    make: Make, tmp_path: Path, model_cached: bool, judge_cached: bool
) -> None:
    folder = RunFolder(tmp_path, "run")
    folder.path.mkdir()
    with JsonLinesWriter(folder.attempts) as writer:
        writer.append(make("a", None, outcome="ok", text="x", call_id="m", cached=model_cached))
    folder.write_config(run_file())
    write_json(folder.manifest, {"schema_version": 1, "run": "run", "samples": 1, "owed": 0})
    write_register(
        folder.path, Register(judged=("ok",), judges={"j": RegisteredJudge({}, decides=True)})
    )
    with JsonLinesWriter(folder.path / JUDGEMENTS) as writer:
        writer.append(judgement(text="x", call_ids=("j",), cached=judge_cached))
    metrics = compute_metrics(folder)
    assert (metrics.n_calls, metrics.n_cached_calls) == (2, model_cached + judge_cached)
    assert metrics.from_cache is model_cached
