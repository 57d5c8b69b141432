"""Which constraints fail, and what a second run did to them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.analysis.constraints import compare_kinds, kinds
from harness.records import Score
from harness.store.constraints import Findings, read_findings
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.analysis.conftest import Make


@pytest.fixture
def findings(make: Make, tmp_path: Path):
    def findings(name: str, **observed: Sequence[int]) -> Findings:
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
    assert exactly.rate == pytest.approx(3 / 7)
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
    assert (exactly.p_value, few.p_value) == (2 * 0.5**12, 1.0)
    assert (exactly.p_adjusted, few.p_adjusted) == (2 * 2 * 0.5**12, 1.0)
