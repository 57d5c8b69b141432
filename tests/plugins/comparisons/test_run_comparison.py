"""Runs against a baseline, from files: families of tests, refusals."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import scipy

from harness.errors import ConfigError, RunConflict
from harness.plugins.comparisons.comparable import Run
from harness.plugins.comparisons.run_comparison import (
    ComparisonOptions,
    RunComparison,
    compare_runs,
)
from harness.records import Score
from harness.store.columns import AttemptTable, name_digest
from tests.analysis.conftest import Make, TableOf
from tests.analysis.statsmodels_reference import least_squares, multipletests
from tests.plugins.comparisons.variants import variant

N = 60


@pytest.fixture
def run(make: Make, table_of: TableOf) -> Any:
    def run(name: str, rate: float, *, labels: bool = True, **changes: Any) -> Run:
        """60 instances of three kinds, two to a prompt, two rounds; the share that passes."""
        chance = np.random.default_rng(int(rate * 100))
        table = table_of(
            make(
                f"i{number}",
                bool(chance.random() < (rate if number_of_round == 1 else 1 - rate)),
                round=number_of_round,
                cluster=f"p{number // 2}",
                groups={"kind": "abc"[number % 3], "half": str(number // 30)} if labels else {},
                scores={"f1": Score(float(chance.random()), None)},
            )
            for number in range(N)
            for number_of_round in (1, 2)
        )
        return variant(name, {}, **changes), table

    return run


def p_values(found: list[Any]) -> tuple[list[float], list[float]]:
    return [one.p_value for one in found], [one.p_adjusted for one in found]


def test_two_runs_and_their_groups_are_planned(run: Any) -> None:
    found = compare_runs(
        [run("weak", 0.2), run("strong", 0.7)], ComparisonOptions(round=1, by="kind")
    )
    assert (found.task, found.baseline) == ("toys", "weak")
    (other,) = found.others
    assert other.run == "strong"
    assert other.overall.difference is not None
    assert other.overall.difference > 0.2
    assert (other.overall.n, other.overall.n_clusters) == (60, 30)
    assert other.overall.p_adjusted == other.overall.p_value
    assert list(other.groups) == ["a", "b", "c"]
    assert [group.n for group in other.groups.values()] == [20, 20, 20]
    told, corrected = p_values(list(other.groups.values()))
    assert corrected == pytest.approx(multipletests(told, "holm"), abs=1e-12)
    assert corrected != pytest.approx(multipletests(told, "fdr_bh"), abs=1e-12)
    assert other.ranking is not None
    assert other.ranking.n_groups == 3


def test_groups_of_several_runs_are_a_search(run: Any) -> None:
    runs = [run("a", 0.2), run("b", 0.4), run("c", 0.7)]
    found = compare_runs(runs, ComparisonOptions(round=1, by="kind"))
    assert [other.run for other in found.others] == ["b", "c"]
    told, corrected = p_values([other.overall for other in found.others])
    assert corrected == pytest.approx(multipletests(told, "holm"), abs=1e-12)
    told, corrected = p_values([g for other in found.others for g in other.groups.values()])
    assert len(told) == 6
    assert corrected == pytest.approx(multipletests(told, "fdr_bh"), abs=1e-12)
    assert corrected != pytest.approx(multipletests(told, "holm"), abs=1e-12)


def test_the_baseline_may_be_any_run(run: Any) -> None:
    runs = [run("a", 0.2), run("b", 0.4), run("c", 0.7)]
    found = compare_runs(runs, ComparisonOptions(), "b")
    assert found.baseline == "b"
    assert [other.run for other in found.others] == ["a", "c"]
    forth, back = (
        compare_runs(runs[:2], ComparisonOptions(), name).others[0].overall for name in "ab"
    )
    assert forth.difference == pytest.approx(-(back.difference or 0))
    assert forth.p_value == pytest.approx(back.p_value)
    assert (forth.better, forth.worse) == (back.worse, back.better)


def test_what_is_asked_is_what_is_compared(run: Any) -> None:
    runs = [run("weak", 0.2), run("strong", 0.7)]

    def overall(**asked: Any) -> Any:
        return compare_runs(runs, ComparisonOptions(**asked)).others[0].overall

    table = runs[1][1]
    for number in (1, 2):
        assert overall(round=number).second == pytest.approx(
            table.passed[table.round == number].mean()
        )
    assert overall() == overall(round=2)  # each sample's last one
    score = overall(score="f1", round=1)
    assert score.second == pytest.approx(table.scores["f1"][table.round == 1].mean())
    assert overall(cluster="half").n_clusters == 2
    (plain,) = compare_runs(runs, ComparisonOptions()).others
    assert (plain.groups, plain.ranking) == ({}, None)


def test_the_instances_that_differ_are_named(make: Make, table_of: TableOf) -> None:
    runs = [
        (variant(name, {}), table_of(make(f"i{n}", passed) for n, passed in enumerate(verdicts)))
        for name, verdicts in (("a", [True, False, True, False]), ("b", [False, True, True, True]))
    ]
    found = compare_runs(runs, ComparisonOptions())
    (other,) = found.others
    assert sorted(other.better_digests) == sorted(map(name_digest, ("i1", "i3")))
    assert other.worse_digests == [name_digest("i0")]
    names = {name_digest(name): name for name in ("i0", "i1", "i3")}
    (named,) = compare_runs(runs, ComparisonOptions(), names=names).others
    assert (named.better, named.worse) == (["i1", "i3"], ["i0"])


def test_marks_and_notes_are_told(run: Any) -> None:
    found = compare_runs(
        [
            run("a", 0.2, simulated=True),
            run("b", 0.4, settings={"model.name": "n", "samples": 2}),
        ],
        ComparisonOptions(),
    )
    assert "SIMULATED" in found.marks
    assert "SIMULATED" not in found.others[0].marks
    assert any("model.name (m, n)" in note for note in found.notes)


def test_it_is_json(run: Any) -> None:
    found = compare_runs([run("a", 0.2), run("b", 0.4)], ComparisonOptions(by="kind"))
    assert msgspec.json.decode(msgspec.json.encode(found), type=RunComparison) == found


@pytest.mark.parametrize(
    ("asked", "baseline", "message"),
    [
        (ComparisonOptions(by="kinds"), "", "--by: the run 'a' has no label 'kinds'"),
        (ComparisonOptions(cluster="kinds"), "", "--cluster: the run 'a' has no label 'kinds'"),
        (ComparisonOptions(score="f2"), "", "'a' has no score 'f2'"),
        (ComparisonOptions(round=3), "", "None of the runs has a round 3"),
        (ComparisonOptions(), "c", "'c' is not one of the runs"),
    ],
)
def test_what_is_not_there_is_refused(
    run: Any, asked: ComparisonOptions, baseline: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        compare_runs([run("a", 0.2), run("b", 0.4)], asked, baseline)


def test_a_label_that_the_baseline_lacks_is_refused(run: Any) -> None:
    runs = [run("a", 0.2, labels=False), run("b", 0.4)]
    for asked in (ComparisonOptions(by="kind"), ComparisonOptions(cluster="kind")):
        with pytest.raises(ConfigError, match="no label 'kind'"):
            compare_runs(runs, asked)
        assert compare_runs(runs, asked, "b").others[0].overall.n == N


def test_runs_of_other_data_are_refused(run: Any) -> None:
    with pytest.raises(RunConflict, match="different data sets"):
        compare_runs(
            [run("a", 0.2), run("b", 0.4, fingerprint={"dataset_sha256": "e"})], ComparisonOptions()
        )


@pytest.mark.exhaustive
def test_the_recorded_models_by_structure(collie: dict[str, AttemptTable]) -> None:
    runs = [(variant(name, {}), table) for name, table in collie.items()]
    (found,) = compare_runs(runs, ComparisonOptions(by="structure")).others
    assert (found.overall.better, found.overall.worse) == (753, 28)
    assert (len(found.better_digests), len(found.worse_digests)) == (753, 28)
    assert len(found.groups) == 13
    assert sum(group.n for group in found.groups.values()) == 2080
    weak, strong = collie.values()
    expected: dict[str, float] = {}
    rates: list[tuple[float, float]] = []
    methods = set()
    for name, rows in strong.split_by("structure"):
        group = found.groups[name]
        of_weak = dict(
            zip(weak.instances.digest[weak.instance].tolist(), weak.passed.tolist(), strict=True)
        )
        digests = rows.instances.digest[rows.instance].tolist()
        first = np.array([of_weak[digest] for digest in digests])
        difference = rows.passed.astype(float) - first
        rates.append((float(first.mean()), float(rows.passed.mean())))
        assert (group.first, group.second) == pytest.approx(rates[-1], abs=1e-12)
        assert (group.better, group.worse) == ((difference > 0).sum(), (difference < 0).sum())
        methods.add(group.method)
        fitted = least_squares(difference, rows.cluster)
        assert group.stderr == pytest.approx(float(fitted.bse[0]), abs=1e-9), name
        assert group.n_clusters == len(set(rows.cluster.tolist()))
        if group.method == "exact McNemar":
            assert group.n_clusters == group.n
            differing = group.better + group.worse
            test = scipy.stats.binomtest(group.better, differing) if differing else None
            expected[name] = 1.0 if test is None else float(test.pvalue)
        elif group.stderr:
            expected[name] = float(fitted.pvalues[0])
            low, high = fitted.conf_int()[0]
            if group.method == "sign flips":
                assert group.p_value is not None
                assert expected[name] < group.p_value
                expected[name] = group.p_value
                low = min(low, 0) if group.p_value >= 0.05 else low
            assert group.ci95 == pytest.approx((max(-1, low), min(1, high)), abs=1e-9)
        else:
            assert not group.better + group.worse
            expected[name] = 1.0
        assert group.p_value == pytest.approx(expected[name], abs=1e-9), name
    holm = multipletests([expected[name] for name in found.groups], "holm")
    for group, p in zip(found.groups.values(), holm, strict=True):
        assert group.p_adjusted == pytest.approx(float(p), abs=1e-9)
    assert found.ranking is not None
    tau = scipy.stats.kendalltau(*np.round(np.transpose(rates), 12)).statistic
    assert found.ranking.tau_b == pytest.approx(tau, abs=1e-9)
    assert methods == {"exact McNemar", "clustered paired t", "sign flips"}
