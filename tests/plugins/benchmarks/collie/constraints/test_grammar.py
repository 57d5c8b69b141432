import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Combination,
    Count,
    Specification,
    read,
    write,
)
from tests.plugins.benchmarks.collie.constraints.specifications import specifications

WORDS = {"target_level": "word", "transformation": {"op": "count"}, "relation": "=="}
LAST = {"target_level": "word", "transformation": {"op": "position", "index": -1}, "relation": "=="}
PART = {"level": "paragraph", "index": 2}
EACH = {
    "input_level": "sentence",
    "target_level": "word",
    "transformation": {"op": "for_each", "do": {"op": "count"}},
    "relation": ">=",
    "reduction": "all",
}


def spec(constraint: Any, targets: Any, level: Any = "paragraph") -> dict[str, Any]:
    return {"level": level, "constraint": constraint, "targets": targets}


def both(*constraints: Any, logic: Any = "all") -> dict[str, Any]:
    return {"logic": logic, "constraints": list(constraints)}


@settings(max_examples=40)
@given(specifications())
def test_what_is_written_is_read_back(specification: Specification) -> None:
    assert read(write(specification)) == specification
    assert read(json.loads(json.dumps(write(specification)))) == specification
    assert read(yaml.safe_load(yaml.safe_dump(write(specification)))) == specification


def test_published_form_with_nulls() -> None:
    published = {
        "input_level": None,
        "target_level": "character",
        "transformation": {"op": "count", "of": None},
        "relation": ">=",
        "reduction": None,
        "reduction_value": None,
    }
    assert read(spec(published, [11], "word")) == Specification(
        "word", Base("character", Count(), ">="), (11,)
    )
    assert write(read(spec(published, [11], "word")))["constraint"] == published


def test_bases_come_from_left_to_right_with_their_targets() -> None:
    tree = both(both(WORDS, LAST, logic="or"), EACH)
    specification = read(spec(tree, [[5, "home"], 3]))
    assert isinstance(specification.constraint, Combination)
    assert [target for _, target in specification.bases()] == [5, "home", 3]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, "expected `object`, got `null`"),
        ([], "expected `object`, got `array`"),
        ({}, "missing required field `level`"),
        ({"level": "word", "constraint": WORDS}, "missing required field `targets`"),
        (spec(WORDS, 5) | {"target": 5}, "unknown field `target`"),
        (spec(WORDS, 5, "sentense"), "invalid enum value 'sentense' - at `$.level`"),
        (spec(WORDS, 5, ["word"]), "at `$.level`"),
        (spec("count", 5), "expected `object`"),
        (spec(WORDS | {"realtion": "=="}, 5), "unknown field `realtion`"),
        (spec(WORDS | {1: 2}, 5), "a key that is not a string"),
        (spec(WORDS | {"relation": "~"}, 5), "invalid enum value '~' - at `$.relation`"),
        (spec(WORDS | {"target_level": "phrase"}, 5), "invalid enum value 'phrase'"),
        (
            spec(WORDS | {"transformation": {"op": "sum"}}, 5),
            "invalid value 'sum' - at `$.transformation.op`",
        ),
        (spec(WORDS | {"transformation": {}}, 5), "missing required field `op`"),
        (spec(WORDS | {"transformation": {"op": "count", "off": "a"}}, 5), "`off`"),
        (spec(WORDS | {"transformation": {"op": "position", "index": 1.5}}, 5), "got `float`"),
        (spec(WORDS | {"transformation": {"op": "position", "index": True}}, 5), "got `bool`"),
        (spec(WORDS | {"transformation": {"op": "position", "index": []}}, ["a"]), "empty list"),
        (spec(both(WORDS, LAST), [5]), "2 constraints need a list of 2 targets, not 1"),
        (spec(both(WORDS, LAST), [5, "a", "b"]), "not 3"),
        (spec(both(WORDS, LAST), 5), "not no list"),
        (spec(both(WORDS, both(LAST, LAST)), [5, ["a"]]), "constraint 2: 2 constraints need"),
        (spec(both(WORDS, logic="or"), [5]), "at least two"),
        (spec(both(WORDS, logic="xor"), [5]), "invalid enum value 'xor' - at `$.logic`"),
        (spec(both(), []), "length >= 1 - at `$.constraints`"),
        (spec({"logic": "all", "constraints": 5}, []), "expected `array`"),
        (spec(both(WORDS) | {"targets": [5]}, [5]), "unknown field `targets`"),
        (spec(WORDS | {"within": [PART, PART]}, 5), "a paragraph is not made of paragraphs"),
        (spec(WORDS | {"within": [PART], "target_level": "passage"}, 5), "invalid enum value"),
        (
            spec(WORDS | {"within": [PART | {"level": "word"}], "target_level": "sentence"}, 5),
            "a word is not made of sentences",
        ),
        (spec(WORDS, "five"), "must be a number, not 'five'"),
        (spec(WORDS, None), "a whole number, a string or a list"),
        (spec(WORDS, 5.5), "a whole number, a string or a list"),
        (spec(WORDS, True), "a whole number, a string or a list"),
        (spec(WORDS, []), "the list of targets is empty"),
        (spec(LAST, 5), "must be a text, not 5"),
        (spec(LAST, ["a", "b"]), "must be a text"),
        (spec(LAST | {"relation": "<"}, "a"), "compares numbers, not a text"),
        (spec(WORDS | {"relation": "in"}, 5), "needs texts or a list"),
        (spec(EACH | {"reduction": None}, 5), "add a reduction"),
        (spec(EACH, "a"), "must be a number"),
        (spec(EACH, [5, "a"]), "must be a number"),
        (spec(EACH, []), "empty"),
        (spec(EACH | {"reduction": "at least"}, 5), "'reduction_value' is required with"),
        (spec(EACH | {"reduction_value": 1}, 5), "'reduction_value' is required with"),
        (spec(EACH | {"reduction": "exactly", "reduction_value": -1}, 5), "negative"),
        (spec(WORDS | {"reduction": "all"}, 5), "a reduction needs several values"),
        (spec(EACH, 5, "word"), "a word is not made of sentences"),
        (spec(EACH | {"input_level": "character"}, 5), "a character is not made of words"),
        (spec(EACH | {"transformation": {"op": "max", "do": {"op": "identity"}}}, 5), "'max'"),
        (
            spec(WORDS | {"transformation": {"op": "position", "index": [1, 2]}}, ["a"]),
            "2 positions need as many targets, not 1",
        ),
        (
            spec(WORDS | {"transformation": {"op": "for_each", "do": {"op": "identity"}}}, "a")
            | {"constraint": EACH | {"transformation": {"op": "identity"}, "reduction": None}},
            "needs a reduction",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(raw: Any, message: str) -> None:
    with pytest.raises(DataInvalid) as refused:
        read(raw, "mine.yaml, item 3")
    assert str(refused.value).startswith("mine.yaml, item 3")
    assert message in str(refused.value)


def test_absurd_depth_is_refused() -> None:
    do: dict[str, Any] = {"op": "identity"}
    for _ in range(100_000):
        do = {"op": "for_each", "do": do}
    with pytest.raises(DataInvalid, match="nested deeper than 100 levels"):
        read(spec(WORDS | {"transformation": do}, 5))


def test_half_a_surrogate_pair_is_no_character() -> None:
    with pytest.raises(DataInvalid, match="half of a surrogate pair"):
        read(spec(LAST, "x\ud800"))


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["- &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    bomb = yaml.safe_load("\n".join(lines))
    with pytest.raises(DataInvalid, match="more than 100,000 values"):
        read(spec(WORDS, bomb))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(max_examples=40)
@given(specifications(), json_values, st.data())
def test_a_damaged_form_is_read_or_refused(
    specification: Specification, damage: Any, data: st.DataObject
) -> None:
    form = write(specification)
    place: Any = form
    while True:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = damage
    with suppress(DataInvalid):
        assert read(write(read(form))) == read(form)
