"""An ablation: its rows, the verdicts on claims, and what single fields add."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy
from msgspec import structs

from harness.analysis.run_display import RunDisplay
from harness.errors import ConfigError, RunConflict
from harness.plugins.comparisons import ablation
from harness.plugins.comparisons.ablation import (
    Ablation,
    AblationFindings,
    AblationOptions,
    findings,
)
from harness.plugins.comparisons.comparable import Variant
from harness.plugins.comparisons.run_comparison import ComparisonOptions, compare_runs
from harness.ports import Claim, PaperTable, TableFigure
from harness.records import Score
from harness.store.columns import AttemptTable, InstanceTable, name_digest
from tests.analysis.conftest import Make, TableOf
from tests.analysis.summaries import group
from tests.plugins.comparisons.variants import variant

EACH = 20  # instances of a task


def attempts(run: Variant) -> AttemptTable:
    """Attempts with the run's means: equal scores of a task's instances, and as many verdicts."""
    tasks = run.metrics.groups.get("task", {})
    rows = sorted((name_digest(f"{task}/{n}"), task, n) for task in tasks for n in range(EACH))
    places = np.arange(len(rows), dtype=np.int32)
    names = list(tasks)
    scores = [tasks[task].scores for _, task, _ in rows]
    return AttemptTable(
        instance=places,
        sample=np.zeros(len(rows), np.int32),
        round=np.ones(len(rows), np.int32),
        outcome=np.zeros(len(rows), np.int8),
        passed=np.array([n < round(EACH * (tasks[task].mean or 0)) for _, task, n in rows], "i1"),
        scores={"f1": np.array([one["f1"].mean if "f1" in one else np.nan for one in scores])},
        instances=InstanceTable(
            digest=np.array([digest for digest, _, _ in rows], np.int64),
            cluster=places,
            grouping=np.array([names.index(task) for _, task, _ in rows], np.int32),
            groupings=tuple({"task": name} for name in names),
        ),
    )


def ablate(variants: Sequence[Variant], options: AblationOptions) -> Ablation:
    """The table with the groups as statistical units."""
    runs = [(one, attempts(one)) for one in variants]
    return ablation.ablate(runs, structs.replace(options, cluster=None))


BASE = variant("base", {"a": 0.2, "b": 0.4, "c": 0.6})
MORE = variant("more", {"a": 0.3, "b": 0.6, "c": 0.7})
LESS = variant("less", {"a": 0.1, "b": 0.35, "c": 0.3})


def measured(score: str, *variants: Variant) -> list[Variant]:
    """The variants by another score than their own measure."""
    metrics = [structs.replace(one.metrics, measure=score) for one in variants]
    return [replace(one, metrics=own) for one, own in zip(variants, metrics, strict=True)]


def test_means_weigh_groups_the_same() -> None:
    uneven = variant("uneven", {}, groups={"task": {"a": group(0.2, 10), "b": group(0.6, 1000)}})
    table = ablate([uneven, uneven], AblationOptions())
    assert table.rows[0].mean == pytest.approx(0.4)


def test_the_difference_by_instance_is_weighted_too(make: Make, table_of: TableOf) -> None:
    """Of a, one instance with weight 1 gets better and one with 3 does not; of b, the only one."""
    figure = TableFigure("x", "score", "f1", weight="w")
    display = RunDisplay(table=PaperTable("", "", (figure,), ""))
    runs = []
    for name, values in {"base": (0.0, 0.0, 0.0), "more": (1.0, 0.0, 1.0)}.items():
        run = replace(variant(name, {"a": values[0] / 4, "b": values[2]}), display=display)
        attempts = (
            make(f"{n}", None, groups={"task": g}, scores={"f1": Score(value), "w": Score(weight)})
            for n, (g, value, weight) in enumerate(zip("aab", values, (1, 3, 1), strict=True))
        )
        runs.append((run, table_of(attempts)))
    row = ablation.ablate(runs, AblationOptions()).rows[1]
    assert row.difference == pytest.approx((1 / 4 + 1) / 2)
    assert row.by_instance == pytest.approx(2 / 5)


def test_a_row() -> None:
    table = ablate([BASE, MORE, LESS], AblationOptions())
    assert (table.over, table.score, table.baseline, table.n_groups) == ("task", "f1", "base", 3)
    base, more, less = table.rows
    assert base.is_baseline
    assert (base.difference, base.ci95, base.p_value, base.p_holm) == (None,) * 4
    expected = scipy.stats.ttest_rel([0.3, 0.6, 0.7], [0.2, 0.4, 0.6])
    assert more.mean == pytest.approx(1.6 / 3)
    assert more.gain.percent == pytest.approx(100 * 0.4 / 1.2)
    assert more.difference == pytest.approx(0.4 / 3)
    assert more.ci95 == pytest.approx(tuple(expected.confidence_interval()))
    assert more.p_value == pytest.approx(expected.pvalue)
    assert more.n_better == 3
    # Holm over the two rows that are compared: both p are near 0.06 and 0.2
    assert less.p_value is not None
    assert more.p_value is not None
    assert more.p_value < less.p_value
    assert more.p_holm == pytest.approx(2 * more.p_value)
    assert less.p_holm == pytest.approx(max(2 * more.p_value, less.p_value))


def test_the_difference_over_instances_is_that_of_a_comparison() -> None:
    shift = variant("shift", {"a": 0.8, "b": 0.3, "c": 0.5})
    runs = []
    for one in (BASE, shift):
        table = attempts(one)
        in_a = table.instances.grouping[table.instance] == 0
        runs.append((one, table.take(in_a | (np.arange(len(table)) % 4 == 0))))
    row = ablation.ablate(runs, AblationOptions()).rows[1]
    (other,) = compare_runs(runs, ComparisonOptions(score="f1")).others
    assert row.difference == pytest.approx((0.6 - 0.1 - 0.1) / 3)
    assert row.by_instance == pytest.approx(other.overall.difference)
    assert row.by_instance > 1.5 * row.difference


def test_an_interval_holds_no_impossible_difference() -> None:
    low, high = variant("low", {"a": 0.0, "b": 0.3}), variant("high", {"a": 0.9, "b": 0.9})
    assert ablate([low, high], AblationOptions()).rows[1].ci95 == (-1, 1)
    beyond = variant("beyond", {"a": 9.0, "b": 1.0})
    _, found = ablate([low, beyond], AblationOptions()).rows
    assert found.ci95 is not None
    assert found.ci95[1] > 1, "values of this score are not limited"


def test_an_equal_group_is_not_better_and_neither_is_a_rounding_error() -> None:
    base = variant("base", {"a": 0.2, "b": 0.3, "c": 0.3})
    other = variant("other", {"a": 0.2, "b": 0.1 + 0.2, "c": 0.4})
    assert 0.1 + 0.2 > 0.3
    assert ablate([base, other], AblationOptions()).rows[1].n_better == 1


def test_a_baseline_and_a_score_by_name() -> None:
    table = ablate(measured("pass_rate", BASE, MORE), AblationOptions(baseline="more"))
    assert [row.is_baseline for row in table.rows] == [False, True]
    assert table.rows[0].mean == pytest.approx(0.2)
    assert table.rows[0].difference == pytest.approx(-0.2 / 3)


def test_missing_groups_are_not_zero() -> None:
    part, other = variant("part", {"b": 0.5, "c": 0.8}), variant("other", {"z": 0.9})
    _, row, none = ablate([BASE, part, other], AblationOptions()).rows
    assert (row.gain.n, row.gain.of, row.n_groups, row.same_groups) == (2, 3, 2, False)
    assert row.mean == pytest.approx(0.65)
    assert row.difference == pytest.approx(0.15), "of b and c alone"
    assert row.gain.percent == pytest.approx(30)
    assert (none.gain.n, none.gain.percent, none.difference) == (0, None, None)
    assert none.mean == 0.9
    assert none.marks == ["1 group of 'task' that the baseline lacks"]


def test_a_group_without_the_score_is_missing() -> None:
    unscored = variant("unscored", {"a": 0.3, "b": None, "c": 0.9})
    row = ablate([BASE, unscored], AblationOptions()).rows[1]
    assert (row.gain.n, row.mean) == (2, pytest.approx(0.6))


def test_a_gain_over_nothing_is_unknown() -> None:
    zero = variant("zero", {"a": 0.0, "b": 0.0})
    row = ablate([zero, variant("some", {"a": 0.1, "b": 0.3})], AblationOptions()).rows[1]
    assert row.gain.percent is None
    assert row.difference == pytest.approx(0.2)


def test_gains_by_a_coarser_label() -> None:
    member = {"a": "x", "b": "y", "c": "y"}
    part = variant("part", {"a": 0.3, "b": 0.5})
    asked = AblationOptions(by="kind", member=member)
    _, more, half = ablate([BASE, MORE, part], asked).rows
    assert more.by["x"].percent == pytest.approx(50)
    assert more.by["y"].percent == pytest.approx(30)
    assert (half.by["y"].n, half.by["y"].of) == (1, 2)
    assert half.by["y"].percent == pytest.approx(25)
    none = ablate([BASE, variant("a", {"a": 0.3})], asked).rows[1]
    assert (none.by["y"].n, none.by["y"].percent) == (0, None)


def test_what_may_mislead_is_marked() -> None:
    table = ablate(
        measured(
            "pass_rate",
            BASE,
            variant("made_up", {"a": 0.5, "b": 0.5, "c": 0.5}, simulated=True),
            variant("half", {"a": 0.5, "b": 0.5}, complete=False, n_planned=900, n_owed=690),
            variant("none", {}, n_attempts=0, groups={"task": {}}),
            variant("fewer", {}, groups={"task": {"a": group(0.5, n=13, instances="other")}}),
            variant("unjudged", {}, groups={"task": {"a": group(0.5, n=90, missing=10)}}),
        ),
        AblationOptions(),
    )
    assert [row.marks for row in table.rows] == [
        [],
        ["SIMULATED"],
        ["INCOMPLETE 210 of 900"],
        ["NO ATTEMPTS"],
        ["other instances in 1 group of 'task'"],
        ["10 samples without pass_rate"],
    ]


def test_several_samples_are_not_other_instances() -> None:
    twice = variant("twice", {}, groups={"task": {"a": group(0.5, n=200)}}, settings={"samples": 2})
    assert ablate([BASE, twice], AblationOptions()).rows[1].marks == []


def test_the_default_label_is_one_that_all_runs_have() -> None:
    only = variant("only", {"a": 0.5}, groups={"kind": {"x": group(0.5)}})
    lacking = variant("lacking", {"a": 0.5})
    del only.metrics.groups["task"]
    assert ablate([only, lacking], AblationOptions()).over == "parity"
    with pytest.raises(ConfigError, match=r"run 'abl\.only' has no groups of 'task'"):
        ablate([only, lacking], AblationOptions(over="task"))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (AblationOptions(baseline="bas"), "Did you mean 'base'"),
        (AblationOptions(over="tusk"), "Did you mean 'task'"),
    ],
)
def test_unknown_names(asked: AblationOptions, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ablate([BASE, MORE], asked)
    with pytest.raises(ConfigError, match="Valid names: f1, pass_rate"):
        ablate(measured("f2", BASE, MORE), AblationOptions())


def test_a_baseline_without_anything_to_compare() -> None:
    empty = variant("empty", {}, n_attempts=0)
    with pytest.raises(ConfigError, match=r"'abl\.empty' has no attempts"):
        ablate([empty, BASE], AblationOptions())
    unscored = variant("unscored", {"a": None})
    with pytest.raises(ConfigError, match=r"'abl\.unscored' has no f1 in any task"):
        ablate([unscored, BASE], AblationOptions())


def test_prompts_are_the_units_unless_the_groups_are_said_to_be() -> None:
    runs = [(one, attempts(one)) for one in measured("pass_rate", BASE, MORE)]
    by_prompt, by_group = (
        ablation.ablate(runs, AblationOptions(cluster=label)) for label in ("", "task")
    )
    (_, one), (_, other) = by_prompt.rows, by_group.rows
    assert one.difference == other.difference == pytest.approx(0.2 / 3)
    assert (one.n_clusters, other.n_clusters) == (60, 3)
    # 4 of 60 prompts get better, and none worse: compare has the same p
    assert (one.p_value, one.method) == (0.125, "exact McNemar")
    with pytest.raises(ConfigError, match="has no label 'tusk'"):
        ablation.ablate(runs, AblationOptions(cluster="tusk"))


def test_runs_of_different_measures_need_a_score() -> None:
    with pytest.raises(RunConflict, match="different primary metrics: f1, pass_rate"):
        ablate([BASE, variant("old", {"a": 0.5}, measure=None)], AblationOptions())


HELPS = Claim("more helps", "us", "more", more="_P_D", less="_P")
ROWS = Claim("fields differ", "us", "rows_differ")
GROUPS = Claim("tasks differ", "us", "groups_differ")


def fields(encoding: str) -> dict[str, str]:
    """Fields are letters; a small one is another form of the large."""
    return {field.upper(): field for field in encoding.split("_")[1:]}


def found(variants: Sequence[Variant], *claims: Claim) -> AblationFindings:
    encodings = {name for one in variants for name in one.metrics.groups.get("encoding", {})}
    display = RunDisplay(claims=claims, fields={name: fields(name) for name in encodings})
    variants = [replace(one, display=display) for one in variants]
    return findings(variants, ablate(variants, AblationOptions()))


def run(name: str, encoding: str, *values: float, **changes: Any) -> Variant:
    return variant(name, dict(zip("abcde", values, strict=False)), encoding, **changes)


PLAIN = run("base", "_P", 0.2, 0.2, 0.2)


@pytest.mark.parametrize(
    ("values", "verdict", "evidence"),
    [
        ((0.5, 0.52, 0.48), "holds", "more over base: +30.00 (25.03 to 34.97), more on 3 of 3"),
        ((0.1, 0.3, 0.5), "undecided", "(-39.68 to 59.68), more on 2 of 3 groups"),
        ((0.1, 0.15, 0.2), "does not hold", "-5.00"),
        ((0.1, 0.2, 0.3), "does not hold", "+0.00"),
        ((0.2, 0.2, 0.2), "does not hold", "+0.00 (no interval), more on 0 of 3"),
        ((0.5,), "undecided", "+30.00 (no interval), more on 1 of 1"),
    ],
)
def test_more(values: tuple[float, ...], verdict: str, evidence: str) -> None:
    (told,) = found([PLAIN, run("more", "_P_D", *values)], HELPS).claims
    assert told.verdict == verdict
    assert evidence in told.evidence
    assert (told.says, told.source) == ("more helps", "us")


@pytest.mark.parametrize("changes", [{"simulated": True}, {"complete": False}])
def test_a_run_that_is_made_up_or_incomplete_speaks_for_nothing(changes: dict[str, bool]) -> None:
    told = found([PLAIN, run("more", "_P_D", 0.5, 0.6, 0.7, **changes)], HELPS, ROWS, GROUPS)
    assert {claim.verdict for claim in told.claims} == {"not tested"}
    assert told.claims[0].evidence == "no usable run of _P_D"
    assert told.fields == []
    assert told.silent == ["more"]


def test_another_models_run_speaks_for_nothing() -> None:
    """Else what one model is better at would be what the field adds."""
    strong = run("more", "_P_D", 0.5, 0.6, 0.7, settings={"model.name": "strong"})
    told = found([PLAIN, strong], HELPS)
    assert told.claims[0].verdict == "not tested"
    assert told.fields == []
    assert told.silent == ["more"]


def test_runs_of_several_encodings_speak_for_none() -> None:
    both = run("both", "_P_D", 0.5, 0.6, 0.7)
    both.metrics.groups["encoding"]["_P_E"] = group(0.5)
    assert found([PLAIN, both], HELPS).claims[0].verdict == "not tested"


def test_the_run_with_most_tasks_then_most_examples_speaks() -> None:
    few, many, part = (run(name, "_P_D", *values) for name, values in (
        ("few", (0.3, 0.3, 0.4)), ("many", (0.5, 0.5, 0.6)), ("part", (0.9, 0.9))
    ))  # fmt: skip
    for one, shown in ((few, "2"), (many, "10"), (part, "50")):
        one.metrics.groups["examples"] = {shown: group(0.5)}
    for order in ([PLAIN, few, many, part], [PLAIN, part, many, few]):
        assert found(order, HELPS).claims[0].evidence.startswith("many over base")


def test_fields_that_are_added_alone() -> None:
    told = found(
        [
            PLAIN,
            run("d", "_D_P", 0.3, 0.3, 0.4),
            run("de", "_P_D_E", 0.4, 0.4, 0.3),
            run("x", "_p_X", 0.1, 0.1, 0.2),
            run("yz", "_P_Y_Z", 0.5, 0.5, 0.6),
        ]
    ).fields
    assert [(gain.field, gain.less, gain.more) for gain in told] == [
        ("D", "base", "d"),
        ("X", "base", "x"),
        ("E", "d", "de"),
    ]
    assert [gain.difference for gain in told] == pytest.approx([0.4 / 3, -0.2 / 3, 0.1 / 3])
    assert [gain.n_better for gain in told] == [3, 0, 2]
    assert [gain.other_forms for gain in told] == [{}, {"P": ("P", "p")}, {}]


def test_the_direction_does_not_depend_on_the_order_of_the_runs() -> None:
    (gain,) = found([run("d", "_P_D", 0.3, 0.3, 0.4), PLAIN]).fields
    assert (gain.less, gain.more, gain.n_better) == ("base", "d", 3)


def test_rows_differ() -> None:
    d, e, f = (
        run("d", "_P_D", 0.5, 0.51, 0.49),
        run("e", "_P_E", 0.2, 0.21, 0.19),
        run("f", "_P_F", 0.1, 0.12, 0.1),
    )
    (told,) = found([PLAIN, d, e, f], ROWS).claims
    assert told.verdict == "holds"
    assert "of 3 fields added to base" in told.evidence
    assert "F -9.33 (f), D +30.00 (d); apart by +39.33" in told.evidence
    assert "covers all 3 pairs" in told.evidence
    # the same two fields are less far apart where many others might have been the extremes
    noisy = [run("d", "_P_D", 0.5, 0.6, 0.7), run("e", "_P_E", 0.4, 0.41, 0.42)]
    assert found([PLAIN, *noisy], ROWS).claims[0].verdict == "undecided"
    assert found([PLAIN, d], ROWS).claims[0].verdict == "not tested"


def test_the_extremes_of_several_fields_are_apart_by_bonferronis_interval() -> None:
    d, e, f = (
        run("d", "_P_D", 0.3, 0.4, 0.35),
        run("e", "_P_E", 0.25, 0.3, 0.3),
        run("f", "_P_F", 0.2, 0.2, 0.2),
    )
    error = 100 * scipy.stats.sem([0.1, 0.2, 0.15])  # of what d has more than f
    of_one_pair, of_three = (
        scipy.stats.t.interval(1 - 0.05 / pairs, 2, 15, error)[0] for pairs in (1, 3)
    )
    assert of_one_pair > 0 > of_three
    for others, lower, verdict in (([], of_one_pair, "holds"), ([e], of_three, "undecided")):
        (told,) = found([PLAIN, d, *others, f], ROWS).claims
        assert told.verdict == verdict
        assert f"apart by +15.00 ({lower:.2f} to {30 - lower:.2f})" in told.evidence


def test_groups_differ() -> None:
    mixed = run("mixed", "_P_D", 0.4, 0.1, 0.2)
    (told,) = found([PLAIN, mixed, run("all", "_P_E", 0.3, 0.31, 0.3)], GROUPS).claims
    assert told.verdict == "holds"
    assert told.evidence.startswith(
        "1 of 2 other encodings (of each, the run with the most groups,"
    )
    assert "gain on some groups and lose on others" in told.evidence
    assert "of 1 the gains differ by more than their errors" in told.evidence


def test_rounding_is_no_error_that_a_gain_could_exceed() -> None:
    base, even = (
        run(name, encoding, *values, stderr=1.6e-17)
        for name, encoding, values in (
            ("base", "_P", (0.2, 0.2, 0.2)),
            ("even", "_P_D", (0.3, 0.3, 0.4)),
        )
    )
    told = found([base, even], GROUPS).claims[0]
    assert "of 0 the gains differ" in told.evidence


def test_groups_that_differ_within_their_errors() -> None:
    base = run("base", "_P", 0.2, 0.2, 0.2, stderr=0.1)
    mixed = run("mixed", "_P_D", 0.25, 0.15, 0.2, stderr=0.1)
    same = run("same", "_P_D", 0.3, 0.3, 0.3, stderr=0.1)
    assert found([base, mixed], GROUPS).claims[0].verdict == "undecided"
    assert found([base, same], GROUPS).claims[0].verdict == "does not hold"
    assert found([base, run("one", "_P_D", 0.3)], GROUPS).claims[0].verdict == "not tested"


def test_an_error_of_zero_is_not_weighed() -> None:
    base = run("base", "_P", 0.2, 0.2, 0.2, stderr=0.0)
    mixed = run("mixed", "_P_D", 0.25, 0.15, 0.2, stderr=0.0)
    assert found([base, mixed], GROUPS).claims[0].verdict == "undecided"


def test_a_task_without_claims() -> None:
    variants = [PLAIN, run("d", "_P_D", 0.3, 0.3, 0.4)]
    told = findings(variants, ablate(variants, AblationOptions()))
    assert (told.fields, told.claims) == ([], [])
    assert math.isclose(told.table.rows[1].difference or 0.0, 0.4 / 3)


def test_the_tests_of_several_encodings_are_adjusted_by_holm() -> None:
    stderr, gain = 0.02, 0.053
    p_value = scipy.stats.chi2.sf(2 * gain**2 / (2 * stderr**2), 2)  # Cochran's Q
    assert 0.025 < p_value < 0.05
    base = run("base", "_P", 0.2, 0.2, 0.2, stderr=stderr)
    mixed = [
        run(name, f"_P_{name}", 0.2 + gain, 0.2 - gain, 0.2, stderr=stderr) for name in ("D", "E")
    ]
    (alone,) = found([base, mixed[0]], GROUPS).claims
    assert alone.verdict == "holds"
    assert "of 1 the gains differ by more than their errors" in alone.evidence
    (both,) = found([base, *mixed], GROUPS).claims
    assert both.verdict == "undecided"
    assert both.evidence.startswith("2 of 2 other encodings")
    assert "of 0 the gains differ by more than their errors" in both.evidence
