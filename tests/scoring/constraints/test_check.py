from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.scoring.constraints.check import check
from harness.scoring.constraints.form import read
from harness.scoring.constraints.grammar import Specification
from harness.scoring.constraints.levels import Splitter
from scripts.bench_collie import official_check
from tests.scoring.constraints.nltk_reference import english, own
from tests.scoring.constraints.specifications import FITTING, specifications

COUNT = {"op": "count"}
EACH = {"op": "for_each", "do": COUNT}
TEXT = "The bird sang. The cat, who heard it, crept near! It flew."
#       3 words        7 words                              2 words


def passes(targets: Any, text: str = TEXT, level: str = "passage", **base: Any) -> bool:
    constraint = {"target_level": "word", "transformation": COUNT, "relation": "=="} | base
    form = {"level": level, "constraint": constraint, "targets": targets}
    return check(read(form), text, own()).passed


def test_transformations() -> None:
    assert passes(12)
    assert passes(3, target_level="sentence")
    assert passes(2, transformation={"op": "count", "of": "The"})
    assert passes("bird", transformation={"op": "position", "index": 1})
    assert passes(["bird", "flew"], transformation={"op": "position", "index": [1, -1]})
    assert not passes("bird", transformation={"op": "position", "index": 12})
    assert not passes("bird", transformation={"op": "position", "index": -13})
    assert passes("crept", transformation={"op": "identity"}, relation="in")
    assert passes([3, 7, 2], input_level="sentence", transformation=EACH, reduction="all")
    assert passes(7, input_level="sentence", transformation={"op": "max", "do": EACH})
    assert passes(2, input_level="sentence", transformation={"op": "min", "do": EACH})
    assert not passes(0, "", transformation={"op": "max", "do": EACH}, relation=">=")


@pytest.mark.parametrize(
    ("reduction", "n", "expected"),
    [
        ("all", None, False),
        ("any", None, True),
        ("none", None, False),
        ("at least", 2, True),
        ("at least", 3, False),
        ("at most", 2, True),
        ("at most", 1, False),
        ("exactly", 2, True),
        ("exactly", 1, False),
    ],
)
def test_reductions(reduction: str, n: int | None, expected: bool) -> None:
    """Two of the three sentences have at least three words."""
    assert (
        passes(
            3,
            input_level="sentence",
            transformation=EACH,
            relation=">=",
            reduction=reduction,
            reduction_value=n,
        )
        is expected
    )


def test_a_list_of_targets_needs_as_many_values() -> None:
    last = {"op": "for_each", "do": {"op": "position", "index": -1}}
    where: dict[str, Any] = {"input_level": "sentence", "transformation": last, "reduction": "all"}
    assert passes(["sang", "near", "flew"], **where)
    assert not passes(["sang", "near"], **where)
    assert not passes(["sang", "flew", "near"], **where)
    assert not passes(["sang", "near"], **where | {"reduction": "any"})


@pytest.mark.parametrize(
    ("logic", "verdicts"), [("and", (0, 0, 0, 1)), ("all", (0, 0, 0, 1)), ("or", (0, 1, 1, 1))]
)
def test_logic(logic: str, verdicts: tuple[int, ...]) -> None:
    base = {"target_level": "word", "transformation": COUNT, "relation": "=="}
    for expected, (first, second) in zip(
        verdicts, [(1, 1), (1, 12), (12, 1), (12, 12)], strict=True
    ):
        tree = {"logic": logic, "constraints": [base, base]}
        nested = {"logic": "all", "constraints": [base, tree]}
        form = {"level": "passage", "constraint": nested, "targets": [12, [first, second]]}
        verdict = check(read(form), TEXT, own())
        assert verdict.passed == bool(expected)
        assert [finding.passed for finding in verdict.findings] == [True, first == 12, second == 12]


texts = st.lists(
    st.sampled_from(
        ["The bird", "a", "it's", "x.", ". ", "\n\n", "! ", " ", "Bird,", "é", "“", ""]
    ),
    max_size=10,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(specifications(), texts | st.text(max_size=40))
def test_any_specification_checks_any_text(specification: Specification, text: str) -> None:
    verdict = check(specification, text, own())
    assert len(verdict.findings) == len(list(specification.bases()))


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(FITTING), texts)
def test_verdicts_are_those_of_the_official_method(fitting: tuple[Any, Any], text: str) -> None:
    """Wherever it has one, save that a list of one position is met by a list of one target."""
    constraint, target = fitting
    units: Splitter = english()
    index = str(constraint["transformation"])
    assume(not (target_of_one(target) and constraint["reduction"] is None and "[" in index))
    assume("'min'" not in index)
    specification = read({"level": "passage", "constraint": constraint, "targets": target})
    (finding,) = check(specification, text, units).findings
    assume(not (target_of_one(target) and isinstance(finding.observed, tuple)))
    try:
        expected = official_check(constraint, text, target)
    except (TypeError, ValueError):  # it compares None with a number, or takes the max of nothing
        return
    assert finding.passed == expected


def target_of_one(target: Any) -> bool:
    return isinstance(target, list) and len(target) == 1


@pytest.mark.parametrize("text", ["", " ", "\n\n", ".", "\x00", "a" * 200_000, "word " * 40_000])
def test_odd_texts(text: str) -> None:
    for constraint, target in FITTING[::97]:
        form = {"level": "passage", "constraint": constraint, "targets": target}
        assert check(read(form), text, own()).passed in (True, False)
