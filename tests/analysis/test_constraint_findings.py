"""What scores say of constraints: of which line, of which kind, by how much."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.analysis.constraints import (
    LABEL,
    MOST_KINDS,
    OTHERS,
    ConstraintFindings,
    read_findings,
)
from harness.records import SCHEMA_VERSION, Attempt, Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter


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


def findings(path: Path, *attempts: Attempt, round_: int | None = None) -> ConstraintFindings:
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)
    return read_findings(AttemptIndex(path), round_)


def kinds(found: ConstraintFindings) -> dict[str, list[int]]:
    return {kind: rows.passed.tolist() for kind, rows in found.table.by(LABEL)}


def test_each_constraint_is_a_row(tmp_path: Path) -> None:
    found = findings(
        tmp_path / "a",
        attempt("a", {"constraints": [words(98, 100, False), words(3, 3, True, kind="three")]}),
        attempt("b", {"constraints": [words(7, 7, True)]}),
        attempt("a", {"constraints": [words(100, 100, True)]}, sample=1),
    )
    assert {kind: sorted(rows) for kind, rows in kinds(found).items()} == {
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
    assert kinds(findings(tmp_path / "all", *rounds)) == {"with exactly N words": [1, 1]}
    first = kinds(findings(tmp_path / "first", *rounds, round_=1))
    assert {kind: sorted(rows) for kind, rows in first.items()} == {"with exactly N words": [0, 1]}


def test_a_constraint_may_have_labels_of_its_own(tmp_path: Path) -> None:
    own = [
        words(1, 2, False, groups={"type": "length", "g": "own"}),
        words(3, 3, True, groups={"type": "style", LABEL: "reserved"}, kind="three"),
        words(4, 4, True, kind="four"),
    ]
    table = findings(tmp_path / "a", attempt("a", {"constraints": own})).table
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
    table = findings(tmp_path / "a", attempt("a", told)).table
    assert table.labels() == ["g", LABEL]
    assert len(table) == 1


def test_samples_that_tell_of_none_are_counted(tmp_path: Path) -> None:
    found = findings(
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
    assert not findings(tmp_path / "a", attempt("a", details)).misses["k"].off_by


def test_a_superseded_line_is_none(tmp_path: Path) -> None:
    found = findings(
        tmp_path / "a",
        attempt("a", {"constraints": [words(1, 2, False)]}),
        attempt("a", {"constraints": [words(2, 2, True)]}),
    )
    assert kinds(found) == {"with exactly N words": [1]}
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
    assert list(kinds(findings(tmp_path / "a", attempt("a", details)))) == [
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
    found = findings(tmp_path / "a", attempt("a", details))
    counted = found.misses["with exactly N words"]
    assert (counted.off_by, counted.reasons) == ({-0.5: 1}, {"too few": 1})


def test_kinds_beyond_the_most_are_counted_together(tmp_path: Path) -> None:
    texts = ["".join(chr(97 + int(digit)) for digit in str(n)) for n in range(MOST_KINDS + 20)]
    details = {"constraints": [{"constraint": text, "passed": True} for text in texts]}
    found = kinds(findings(tmp_path / "a", attempt("a", details)))
    assert len(found) == MOST_KINDS + 1
    assert len(found[OTHERS]) == 20
