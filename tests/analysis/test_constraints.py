"""What scores say of constraints: how often each kind is met and by how much, and what changed."""

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.constraints import (
    LABEL,
    MOST_KINDS,
    OTHERS,
    ConstraintFindings,
    compare_kinds,
    kinds,
    read_findings,
)
from harness.analysis.requirements import (
    NONE,
    CriteriaDescription,
    Feature,
    describe,
    features,
    pmi,
    rejections,
    verbs,
)
from harness.records import SCHEMA_VERSION, Attempt, Criterion, Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.analysis.conftest import Make


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


def test_the_features_of_a_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"minLength": {"type": "string", "format": "date"}},
        "required": ["format"],
        "const": {"pattern": 1},
        "anyOf": [{"$ref": "#/$defs/enum"}],
        "$defs": {"enum": {"maximum": 3}},
    }
    root, *found = features(schema)
    assert root == "root: object"
    assert found == sorted(found)
    keywords = {"$defs", "$ref", "anyOf", "const", "format", "maximum", "properties", "required"}
    assert set(found) == {*keywords, "type", "format: date"}


def test_rejections_are_counted_by_feature_and_other_failures_are_not() -> None:
    refused = "RequestRejected: 'format' is not permitted"
    found = rejections(
        [
            ("json_schema", {"type": "string", "format": "date"}, refused),
            ("json_schema", {"type": "string"}, None),
            ("json_schema", {"type": "number", "minimum": 0}, None),
            ("json_schema", {"type": "string", "minLength": 1}, "Overloaded: busy"),
            ("regex", "a+", refused),
        ]
    )
    assert (found.n, found.n_rejected, found.n_failed) == (4, 2, 1)
    assert found.messages == {"'format' is not permitted": 2}
    assert found.features[:3] == [
        Feature("format", 1, 1),
        Feature("format: date", 1, 1),
        Feature("regex", 1, 1),
    ]
    shares = {one.name: (one.n, one.n_rejected) for one in found.features}
    assert shares["type"] == (3, 1)
    assert shares["root: string"] == (2, 1)
    assert "minLength" not in shares


def test_a_run_without_constraints_has_none() -> None:
    found = rejections([])
    assert (found.n, found.features, found.messages) == (0, [], {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=40)
@given(json_values)
def test_whatever_was_sent_has_features(schema: object) -> None:
    assert features(schema)[0].startswith("root: ")


def test_deep_schemas_end() -> None:
    schema: dict[str, object] = {}
    for _ in range(5_000):
        schema = {"not": schema}
    assert features(schema)[1:] == ("not",)


def criteria(*groups: str) -> list[Criterion]:
    return [
        Criterion(f"Use {group} {number}.", {"category": group} if group else {})
        for number, group in enumerate(groups)
    ]


@pytest.fixture
def found() -> CriteriaDescription:
    tasks = [
        ({"domain": "Law"}, criteria("A", "A", "B")),
        ({"domain": "Law"}, criteria("A", "B", "C")),
        ({"domain": "Arts"}, criteria("A")),
        ({}, criteria("C", "")),
    ]
    return describe(tasks)


def test_counts(found: CriteriaDescription) -> None:
    assert (found.n_tasks, found.n_criteria, found.mean) == (4, 9, 2.25)
    assert found.tasks_by_count == {1: 1, 2: 1, 3: 2}
    assert found.groups == {"A": 4, "B": 2, "C": 2, NONE: 1}
    assert found.tasks_by_group == {"A": 3, "B": 2, "C": 2, NONE: 1}
    assert found.groups_by_count == {
        1: {"A": 1}, 2: {NONE: 1, "C": 1}, 3: {"A": 3, "B": 2, "C": 1},
    }  # fmt: skip
    assert found.labels == {"domain": {"Law": 2, "Arts": 1}}
    assert found.repeated == {1: 6, 3: 1}
    assert found.verbs == found.openings == {}
    texts = {"Use A 0.", "Use A 1.", "Use B 2.", "Use B 1.", "Use C 2.", "Use C 0.", "Use  1."}
    assert found.n_distinct == len(texts)


def test_pmi_is_of_tasks(found: CriteriaDescription) -> None:
    pairs = {(one.first, one.second): (one.n, one.pmi) for one in found.together}
    assert pairs[("A", "B")] == (2, pytest.approx(log((2 / 4) / (3 / 4 * 2 / 4))))
    assert pairs[("A", "C")] == (1, pytest.approx(log((1 / 4) / (3 / 4 * 2 / 4))))
    assert pairs[("B", "C")] == (1, pytest.approx(log(1)))
    assert pairs[(NONE, "A")] == (0, None)
    assert len(pairs) == 6


def test_pmi_of_what_knows_nothing_of_each_other_is_zero() -> None:
    assert pmi(both=6, first=12, second=50, n=100) == pytest.approx(0)
    assert pmi(0, 1, 1, 10) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The poem should be short.", ["", "be"]),
        ("You are a coach.", ["", "be"]),
        ("NAME_1 is the hero.", ["", "be"]),
        ("NAME_12, NAME_3 and NAME_4.", [""]),
        ("Use only verbs.", ["use"]),
        ("use NAME_1", ["use"]),
        ("Don't rhyme.", ["do", "rhyme"]),
        ("Don\u2019t rhyme.", ["do", "rhyme"]),
        ("Mention it, then stop. Avoid lists.", ["mention", "stop", "avoid"]),
        ("State what was said.", ["state", "be", "say"]),
        ("50 words", [""]),
        ("…", [""]),
        ("", []),
    ],
)
def test_verbs_are_no_other_words(text: str, found: list[str]) -> None:
    told = verbs(text)
    assert [*told[:1], *filter(None, told[1:])] == found


def test_verbs_at_the_beginning_and_anywhere() -> None:
    texts = ["Use a list.", "Use NAME_1.", "Do not use lists.", "The list is used.", "A list"]
    texts += ["Use a list."]
    told = describe([({}, [Criterion(text, {}) for text in texts])], verbs=verbs)
    assert told.verbs == {"use": 5, "be": 1, "do": 1}
    assert told.openings == {"use": 3, "do": 1}
    assert told.repeated == {1: 4, 2: 1}, "one text occurs twice"


def test_of_nothing() -> None:
    found = describe([])
    assert (found.n_tasks, found.mean, found.together) == (0, None, [])


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
    return {kind: rows.passed.tolist() for kind, rows in found.table.by(LABEL)}


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
        label: {g: rows.passed.tolist() for g, rows in table.by(label)} for label in table.labels()
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
