"""What scores say of constraints: how often each kind is met and by how much, and what changed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import structs

from harness.plugins.comparisons.comparable import Run, Variant
from harness.plugins.comparisons.constraints import (
    LABEL,
    MOST_KINDS,
    OTHERS,
    ConstraintFindings,
    compare_kinds,
    kinds,
    read_findings,
)
from harness.plugins.comparisons.run_comparison import ComparisonOptions, compare_runs
from harness.records import SCHEMA_VERSION, Attempt, Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.analysis.conftest import Make
from tests.analysis.statsmodels_reference import multipletests
from tests.plugins.comparisons.variants import variant
from tests.store.test_judgement_index import judged_run


@pytest.fixture
def findings(make: Make, tmp_path: Path):
    def findings(name: str, **observed: Sequence[int]) -> ConstraintFindings:
        """instance to what its samples have, where 5 words and fewer than 3 commas are asked."""
        path = tmp_path / name
        with JsonLinesWriter(path) as writer:
            for instance, samples in observed.items():
                for sample, count in enumerate(samples):
                    few = count < 3
                    details = [
                        {"constraint": "with exactly 5 words", "passed": count == 5}
                        | {"observed": count, "target": 5, "reason": f"{count} of 5 words"},
                        {"constraint": "few commas", "passed": few},
                    ]
                    score = Score(count == 5, details={"constraints": details})
                    half = {"half": str(len(instance) % 2)}
                    told = {"rules": score}
                    writer.append(make(instance, True, sample=sample, scores=told, groups=half))
        return read_findings(AttemptIndex(path))

    return findings


def test_how_often_each_kind_is_met(findings) -> None:
    few, exactly = kinds(findings("a", x=[5, 4, 9], y=[4, 2], z=[5, 5]))
    assert (exactly.kind, exactly.n, exactly.n_clusters, exactly.n_failed) == (
        "with exactly N words",
        7,
        3,
        4,
    )
    assert exactly.mean == pytest.approx(3 / 7)
    assert exactly.off_by == {-3: 1, -1: 2, 4: 1}
    assert next(iter(exactly.reasons.items())) == ("4 of 5 words", 2)
    # What fails most often comes first.
    assert (few.kind, few.n_failed) == ("few commas", 6)
    assert exactly.stderr is not None
    assert exactly.stderr > 0


def test_how_often_those_of_each_group_of_a_label_are_met(findings) -> None:
    (one, none) = kinds(findings("a", x=[5, 4, 9], y=[2], zz=[5, 5]), "half")
    assert (one.kind, one.n, one.n_clusters, one.n_failed) == ("1", 8, 2, 6)
    assert (none.kind, none.n, none.n_clusters, none.n_failed) == ("0", 4, 1, 2)
    assert (one.off_by, one.reasons) == ({}, {})
    assert kinds(findings("b", x=[5]), "other") == []


def test_no_constraints_are_no_kinds(findings) -> None:
    assert kinds(findings("a")) == []


def test_what_was_fixed_and_broken(findings) -> None:
    first = findings("first", x=[4, 4], y=[5], z=[5], only_here=[1])
    second = findings("second", x=[5, 4], y=[2], z=[5], only_there=[1])
    changes = compare_kinds(first, second, ["x", "y", "z", "only_here", "only_there"])
    exactly = changes["with exactly N words"]
    assert (exactly.fixed, exactly.broken) == (["x"], ["y"])
    compared = exactly.comparison
    assert (compared.n, compared.better, compared.worse) == (3, 1, 1)
    assert (compared.first, compared.second) == pytest.approx((2 / 3, 1.5 / 3))
    assert (changes["few commas"].fixed, changes["few commas"].broken) == (["y"], [])
    # Without names, the counts alone.
    assert compare_kinds(first, second)["few commas"].fixed == []


def test_the_best_of_several_samples_is_compared_as_such(findings) -> None:
    best = findings("best", x=[4, 5], y=[4, 4], z=[5, 5])
    rounds = findings("rounds", x=[5], y=[4], z=[5])
    single = compare_kinds(best, rounds)["with exactly N words"].comparison
    assert (single.first, single.second) == (pytest.approx(0.5), pytest.approx(2 / 3))
    level = compare_kinds(best.scored("pass@2"), rounds)["with exactly N words"].comparison
    assert (level.first, level.second, level.better) == (pytest.approx(2 / 3),) * 2 + (0,)


def test_a_coarser_unit(findings, make) -> None:
    first = findings("first", **{f"i{n}": [4] for n in range(12)})
    second = findings("second", **{f"i{n}": [5] for n in range(12)})
    alone = compare_kinds(first, second)["with exactly N words"].comparison
    assert alone.n_clusters == 12
    together = compare_kinds(first, second, cluster="half")["with exactly N words"].comparison
    assert (together.n, together.n_clusters, together.method) == (12, 2, "none")


def test_p_values_are_those_of_a_search(findings) -> None:
    first = findings("first", **{f"i{n}": [4] for n in range(12)})
    second = findings("second", **{f"i{n}": [5] for n in range(12)})
    changes = compare_kinds(first, second)
    exactly, few = changes["with exactly N words"].comparison, changes["few commas"].comparison
    assert exactly.method == "exact McNemar"
    assert (exactly.p_value, few.p_value) == (pytest.approx(2 * 0.5**12), 1.0)
    assert (exactly.p_adjusted, few.p_adjusted) == (pytest.approx(2 * 2 * 0.5**12), 1.0)


def attempt(instance: str, details: Any, sample: int = 0, round_: int = 1) -> Attempt:
    return Attempt(
        v=SCHEMA_VERSION,
        instance=instance,
        sample=sample,
        round=round_,
        groups={"g": "x"},
        cluster=instance,
        request={},
        outcome="ok",
        started_at=0.0,
        ended_at=0.0,
        passed=True,
        scores={"rules": Score(True, details=details)},
    )


def words(observed: Any, target: Any, passed: bool | None, **others: Any) -> dict[str, Any]:
    told = {"constraint": f"with exactly {target} words", "passed": passed}
    return told | {"observed": observed, "target": target} | others


def written(path: Path, *attempts: Attempt, round_: int | None = None) -> ConstraintFindings:
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)
    return read_findings(AttemptIndex(path), round_)


def passed_by_kind(found: ConstraintFindings) -> dict[str, list[int]]:
    return {kind: rows.passed.tolist() for kind, rows in found.table.split_by(LABEL)}


def test_each_constraint_is_a_row(tmp_path: Path) -> None:
    found = written(
        tmp_path / "a",
        attempt("a", {"constraints": [words(98, 100, False), words(3, 3, True, kind="three")]}),
        attempt("b", {"constraints": [words(7, 7, True)]}),
        attempt("a", {"constraints": [words(100, 100, True)]}, sample=1),
    )
    assert {kind: sorted(rows) for kind, rows in passed_by_kind(found).items()} == {
        "with exactly N words": [0, 1, 1],
        "three": [1],
    }
    assert found.misses["with exactly N words"].off_by == {-2: 1}
    # Two samples of one instance's constraint are one pair.
    assert len(found.table.instances.digest) == 3
    assert len(np.unique(found.table.cluster)) == 2
    named = found.instances(["a", "b"])
    assert [named[int(digest)] for digest in found.table.instances.digest].count("a") == 2


def test_the_last_round_counts_or_the_one_that_is_asked_for(tmp_path: Path) -> None:
    rounds = [
        attempt("a", {"constraints": [words(1, 2, False)]}),
        attempt("a", {"constraints": [words(2, 2, True)]}, round_=2),
        attempt("b", {"constraints": [words(2, 2, True)]}),
    ]
    assert passed_by_kind(written(tmp_path / "all", *rounds)) == {"with exactly N words": [1, 1]}
    first = passed_by_kind(written(tmp_path / "first", *rounds, round_=1))
    assert {kind: sorted(rows) for kind, rows in first.items()} == {"with exactly N words": [0, 1]}


def test_a_constraint_may_have_labels_of_its_own(tmp_path: Path) -> None:
    own = [
        words(1, 2, False, groups={"type": "length", "g": "own"}),
        words(3, 3, True, groups={"type": "style", LABEL: "reserved"}, kind="three"),
        words(4, 4, True, kind="four"),
    ]
    table = written(tmp_path / "a", attempt("a", {"constraints": own})).table
    assert table.labels() == ["g", "type", LABEL]
    by = {
        label: {g: rows.passed.tolist() for g, rows in table.split_by(label)}
        for label in table.labels()
    }
    assert by == {
        "g": {"own": [0], "x": [1, 1]},
        "type": {"length": [0], "style": [1]},
        LABEL: {"with exactly N words": [0], "three": [1], "four": [1]},
    }


@pytest.mark.parametrize("groups", [None, [], "length", {"type": 3}, {"type": None}, {"type": {}}])
def test_what_is_no_label_with_a_group_is_left_out(tmp_path: Path, groups: Any) -> None:
    told = {"constraints": [words(1, 2, False) | {"groups": groups}]}
    table = written(tmp_path / "a", attempt("a", told)).table
    assert table.labels() == ["g", LABEL]
    assert len(table) == 1


def test_samples_that_tell_of_none_are_counted(tmp_path: Path) -> None:
    found = written(
        tmp_path / "a",
        attempt("a", {"constraints": [words(1, 2, False)]}),
        attempt("b", {}),
        attempt("b", {"constraints": []}, sample=1),
    )
    assert (len(found.table), found.without) == (1, 2)


@pytest.mark.parametrize(
    ("observed", "target"), [(10**400, 1.5), (1e308, -1e308), (10**400, 10**399), (1e200, 1)]
)
def test_a_difference_that_is_no_number_is_not_counted(
    tmp_path: Path, observed: float, target: float
) -> None:
    details = {"constraints": [words(observed, target, False, kind="k")]}
    assert not written(tmp_path / "a", attempt("a", details)).misses["k"].off_by


def test_a_superseded_line_is_none(tmp_path: Path) -> None:
    found = written(
        tmp_path / "a",
        attempt("a", {"constraints": [words(1, 2, False)]}),
        attempt("a", {"constraints": [words(2, 2, True)]}),
    )
    assert passed_by_kind(found) == {"with exactly N words": [1]}
    assert not found.misses["with exactly N words"].off_by


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"constraints": "none"},
        {"constraints": [{"passed": True}]},
        {"constraints": [{"constraint": 1, "passed": True}]},
        {"other": [1, 2]},
        [1, 2],
        None,
    ],
)
def test_a_tasks_own_details_tell_nothing(tmp_path: Path, details: Any) -> None:
    line = msgspec.json.decode(msgspec.json.encode(attempt("a", {})))
    line["scores"]["rules"]["details"] = details
    (tmp_path / "a").write_bytes(msgspec.json.encode(line) + b"\n")
    found = read_findings(AttemptIndex(tmp_path / "a"))
    assert (len(found.table), found.misses) == (0, {})


def test_no_file_tells_nothing(tmp_path: Path) -> None:
    found = read_findings(AttemptIndex(tmp_path / "none"))
    assert (len(found.table), found.misses) == (0, {})


def test_texts_and_numbers_are_no_part_of_a_kind(tmp_path: Path) -> None:
    details = {
        "constraints": [
            {"constraint": "contains 'bird' and \"egg\" 3 times", "passed": False},
            {"constraint": "contains 'cow' and \"pie\" 12 times", "passed": False},
        ]
    }
    assert list(passed_by_kind(written(tmp_path / "a", attempt("a", details)))) == [
        "contains '…' and '…' N times"
    ]


def test_what_is_no_number_is_off_by_none(tmp_path: Path) -> None:
    details = {
        "constraints": [
            words(True, 1, False),
            words([1, 2], 3, False),
            words(None, 3, False),
            words("2", 3, False),
            words(2.5, 3, False, reason="too few"),
            words(2, 3, None),
        ]
    }
    found = written(tmp_path / "a", attempt("a", details))
    counted = found.misses["with exactly N words"]
    assert (counted.off_by, counted.reasons) == ({-0.5: 1}, {"too few": 1})


def test_kinds_beyond_the_most_are_counted_together(tmp_path: Path) -> None:
    texts = ["".join(chr(97 + int(digit)) for digit in str(n)) for n in range(MOST_KINDS + 20)]
    details = {"constraints": [{"constraint": text, "passed": True} for text in texts]}
    found = passed_by_kind(written(tmp_path / "a", attempt("a", details)))
    assert len(found) == MOST_KINDS + 1
    assert len(found[OTHERS]) == 20


def test_kinds_that_all_change_have_the_false_discovery_rate_of_a_search(findings) -> None:
    """Twelve answers get the right number of words, and too many commas."""
    first = findings("first", **{f"i{n}": [1] for n in range(12)})
    second = findings("second", **{f"i{n}": [5] for n in range(12)})
    comparisons = [change.comparison for change in compare_kinds(first, second).values()]
    p_values = [comparison.p_value for comparison in comparisons]
    assert p_values == pytest.approx([2 * 0.5**12] * 2)
    adjusted = [comparison.p_adjusted for comparison in comparisons]
    assert adjusted == pytest.approx(multipletests(p_values, "fdr_bh"))
    assert adjusted != pytest.approx(multipletests(p_values, "holm"))


def test_kinds_of_a_run_of_rounds_are_not_tested_against_the_best_of_samples(findings) -> None:
    """Any of three samples may satisfy each constraint; a run of rounds has one answer."""
    found = {
        "samples": findings("samples", **{f"i{n}": [4, 5, 3] for n in range(30)}),
        "rounds": findings("rounds", **{f"i{n}": [5 - n % 2] for n in range(30)}),
    }
    found["samples"] = replace(found["samples"], without=2)
    best = variant("samples", {}, settings={"samples": 3}, measure="pass@3")
    rounds = variant("rounds", {}, settings={"rounds.max": 3}, measure="")

    def runs(*variants: Variant) -> list[Run]:
        return [(one, found[one.name].table) for one in variants]

    options = ComparisonOptions(score="")
    compared = compare_runs(runs(best, rounds), options, findings=found)
    [against] = compared.others
    assert against.without_constraints == (2, 0)
    exactly = against.constraints["with exactly N words"].comparison
    assert (exactly.worse, exactly.p_value, exactly.p_adjusted) == (15, None, None)
    assert any(note.startswith("Kinds of constraints are not tested") for note in compared.notes)
    single = replace(best, metrics=structs.replace(best.metrics, measure=""))
    compared = compare_runs(runs(single, rounds), options, findings=found)
    [against] = compared.others
    assert against.constraints["with exactly N words"].comparison.p_value is not None
    assert not any(note.startswith("Kinds") for note in compared.notes)


def test_constraints_of_judges_are_found(tmp_path: Path) -> None:
    found = read_findings(AttemptIndex(judged_run(tmp_path)))
    assert len(found.table) == 2
    assert int(found.table.passed.sum()) == 1
    assert found.without == 1
