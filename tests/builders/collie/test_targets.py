"""Rules for targets: what a text gives, and what is refused where it is written."""

from typing import Any

import pytest

from harness.builders.collie.structure import options, read_rule, specimen, suspicious
from harness.builders.draws import Draws
from harness.errors import DataInvalid
from harness.scoring.constraints.check import Observed
from harness.scoring.constraints.grammar import Base, Target, read_constraint


def base(relation: str, transformation: dict[str, Any], **more: Any) -> Base:
    raw = {"target_level": "word", "transformation": transformation, "relation": relation}
    found = read_constraint({**raw, **more}, "here")
    assert isinstance(found, Base)
    return found


COUNT = {"op": "count"}
EACH = {"op": "for_each", "do": COUNT}
UNITS = {"op": "for_each", "do": {"op": "identity"}}
EXACTLY = base("==", COUNT)
AT_MOST = base("<=", EACH, input_level="sentence", reduction="all")
AT_LEAST = base(">=", EACH, input_level="sentence", reduction="all")
SAME = base("==", EACH, input_level="sentence", reduction="all")
INSIDE = base("in", UNITS)


@pytest.mark.parametrize(
    ("rule", "base", "observed", "found"),
    [
        ({"sweep": {"from": 3, "to": 5}}, EXACTLY, 4, [4]),
        ({"sweep": {"from": 3, "to": 9, "step": 3}}, EXACTLY, 4, []),
        ({"sweep": [4, 9]}, base("<=", COUNT), 4, [4, 9]),
        (7, EXACTLY, 7, [7]),
        ({"take": "value", "from": 5}, EXACTLY, 7, [7]),
        ({"take": "value", "from": 8}, EXACTLY, 7, []),
        ({"take": "value", "to": 6}, EXACTLY, 7, []),
        ({"take": "value"}, EXACTLY, None, []),
        ({"take": "least", "from": 3}, AT_LEAST, (5, 3, 4), [3]),
        ({"take": "least", "from": 4}, AT_LEAST, (5, 3, 4), []),
        ({"take": "greatest"}, AT_MOST, (5, 3), [5]),
        ({"take": "greatest"}, AT_LEAST, (5, 3), []),  # the least sentence has not so many
        ({"take": "common"}, SAME, (3, 3), [3]),
        ({"take": "common"}, SAME, (3, 4), []),
        ({"take": "common", "values": {"from": 3}}, SAME, (3, 3), []),
        ({"take": "value"}, SAME, (3, 4), [(3, 4)]),
        ({"take": "value", "values": {"to": 1}}, SAME, (3, 4), []),
        ({"take": "value"}, SAME, (), []),
        ({"take": "value"}, base("==", {"op": "position", "index": [0, 9]}), ("a", None), []),
        ({"take": "sample", "size": 3}, INSIDE, ("a", "b"), []),
        ({"take": "sample", "size": 2}, INSIDE, ("A", "a.", "b'", "``"), []),
    ],
)  # fmt: skip
def test_what_a_text_gives(rule: Any, base: Base, observed: Observed, found: list[Target]) -> None:
    assert options(read_rule(rule, "here"), base, observed, lambda: Draws(0)) == found


def test_a_sample_is_of_different_clean_words() -> None:
    rule = read_rule({"take": "sample", "size": 2}, "here")
    words = ("One", "one", "two", "''", "three")
    seen = set()
    for seed in range(30):
        [found] = options(rule, INSIDE, words, lambda seed=seed: Draws(seed))  # type: ignore[misc]
        assert isinstance(found, tuple)
        assert len(found) == 2
        seen.add(frozenset(found))
    assert seen == {
        frozenset(pair) for pair in (("One", "two"), ("One", "three"), ("two", "three"))
    }


@pytest.mark.parametrize(
    ("target", "is_suspicious"),
    [
        ("word", False), ("3rd", False), ("Über", False), ("x", False), (7, False),
        ("``", True), ("(a", True), ("end.", True), ("'s", True), ("", True), (" a", True),
        (("a", "b"), False), (("a", "b!"), True), ((3, ("a", "-")), True),
    ],
)  # fmt: skip
def test_what_is_suspicious(target: Target, is_suspicious: bool) -> None:
    assert suspicious(target) is is_suspicious


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"sweep": []}, "1 to 10,000 values"),
        ({"sweep": {"from": 1, "to": 10**12}}, "1 to 10,000 values"),
        ({"sweep": {"from": 1}}, "to is missing"),
        ({"sweep": {"from": 1, "to": 5, "step": 0}}, "step: must be greater than or equal to 1"),
        ({"sweep": [1], "from": 3}, "unknown key 'from'"),
        ({"sweep": [1.5]}, "a whole number, a text or a list"),
        ({"take": "valeu"}, "must be 'value', 'common'"),
        ({}, "take is missing"),
        ({"take": "value", "form": 3}, "did you mean 'from'"),
        ({"take": "value", "from": 9, "to": 3}, "is empty"),
        ({"take": "value", "from": True}, "from must be a whole number"),
        ({"take": "value", "values": 3}, "values must be a section"),
        ({"take": "sample"}, "'size'"),
        ({"take": "value", "size": 3}, "'size'"),
        (None, "a whole number, a text or a list"),
    ],
)
def test_mistakes_are_told(rule: Any, said: str) -> None:
    with pytest.raises(DataInvalid) as raised:
        read_rule(rule, "here")
    assert said in str(raised.value)


def test_what_does_not_fit_has_no_specimen() -> None:
    least = read_rule({"take": "least"}, "here")
    sample = read_rule({"take": "sample", "size": 2}, "here")
    for rule in (least, sample, read_rule({"take": "common"}, "here")):
        with pytest.raises(DataInvalid, match="does not fit"):
            specimen(rule, EXACTLY, "here")
    assert specimen(least, AT_LEAST, "here") == 1
    assert specimen(sample, INSIDE, "here") == ("a", "a")
    assert specimen(read_rule({"sweep": [4, 5]}, "here"), EXACTLY, "here") == 4
