from typing import Any

import pytest

from harness.scoring.constraints.relations import bare, holds


@pytest.mark.parametrize(
    ("relation", "observed", "target", "expected"),
    [
        ("==", 5, 5, True),
        ("==", 5, (5,), True),  # published targets come in a list of one
        ("!=", 5, 5, False),
        ("<", 4, 5, True),
        ("<", 5, 5, False),
        (">", 6, 5, True),
        ("<=", 5, 5, True),
        (">=", 5, 6, False),
        (">=", None, 0, False),
        ("==", None, "a", False),
        ("!=", None, "a", True),
        ("==", "Bird,", "bird", True),
        ("==", "'BIRD!' ", "bird", True),
        ("==", "...", "", False),  # marks alone are kept
        ("==", "?", "!", False),
        ("==", ("A", "b."), ("a", "b"), True),
        ("==", ("a", None), ("a", "b"), False),
        ("==", ("a",), ("a",), True),
        ("in", ("The", "bird"), "BIRD", True),
        ("in", ("The", "bird"), ("bird", "the"), True),
        ("in", ("The", "bird"), ("bird", "egg"), False),
        ("not in", ("The", "bird"), ("bird", "egg"), False),
        ("not in", ("The", "bird"), ("eggs", "egg"), True),
        ("in", "songbird", "bird", True),
        ("in", None, "bird", False),
        ("not in", None, "bird", True),
        ("in", (3, 4), 4, True),
        ("in", (), "a", False),
    ],
)
def test_relations(relation: Any, observed: Any, target: Any, expected: bool) -> None:
    assert holds(relation, observed, target) is expected


def test_bare() -> None:
    assert bare("“Ärger”") == "“ärger”"  # only ASCII marks are taken off
    assert bare(("A.", 3, None)) == ("a", 3, None)
    assert bare(7) == 7
