"""Constraints that no text satisfies, or that every text satisfies, are refused."""

from typing import Any

import pytest

from harness.errors import DataInvalid
from harness.plugins.benchmarks.collie.constraints.check import Splitter, check, problem, read
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Specification,
    read_constraint,
    read_targets,
)
from harness.plugins.benchmarks.punkt import own, word_tokens

UNITS = Splitter(own(), word_tokens)
TEXTS = (
    "New York. He said: don't go to AT&T! New York is far.\n\nIt is late.",
    "ab. a b c, d",
    "a",
    "A ab.\n\nB.\n\nC.",
    "!",
)
COUNT = {"op": "count"}
LAST = {"op": "position", "index": -1}
FIRST_TWO = {"op": "position", "index": [0, 1]}
IDENTITY = {"op": "identity"}


def each(do: dict[str, Any]) -> dict[str, Any]:
    return {"op": "for_each", "do": do}


def of(text: str) -> dict[str, Any]:
    return {"op": "count", "of": text}


def base(
    transformation: dict[str, Any], relation: str = ">=", unit: str = "word", **fields: Any
) -> dict[str, Any]:
    return {
        "target_level": unit, "transformation": transformation, "relation": relation, **fields
    }  # fmt: skip


SENTENCES = {"input_level": "sentence"}
SENTENCES_ALL = SENTENCES | {"reduction": "all"}


@pytest.mark.parametrize(
    ("constraint", "target", "message"),
    [
        (base(of("New York")), 1, "no word equals 'New York', because it is split into 'new'"),
        (base(of("New York"), "=="), 2, "no word equals"),
        (base(of("don't")), 1, "split into 'do' and \"n't\""),
        (base(of("cannot")), 1, "because it is split into 'can' and 'not'"),
        (base(of("Gonna")), 1, "split into 'gon' and 'na'"),
        (base(of("more'n")), 1, "no word equals"),
        (base(LAST, "=="), "lemme", "split into 'lem' and 'me'"),
        (base(of("AT&T")), 1, "no word equals 'AT&T'"),
        (base(of("naïve idea")), 1, "no word equals"),
        (base(of("!")), 1, "split into no words"),
        (base(of("ab"), unit="character"), 1, "'ab' is not one character"),
        (base(of("."), unit="character"), 1, "spaces and periods are removed"),
        (base(of(" "), unit="character"), 1, "spaces and periods are removed"),
        (base(of("It.\n\nB"), unit="paragraph"), 1, "blank line"),
        (base(each(of("New York")), **SENTENCES_ALL), 1, "no word equals"),
        (base(each(of("ab")), reduction="any"), 1, "'ab' is not one character"),
        (base(LAST, "=="), "New York", "no word equals"),
        (base(LAST, "!="), "New York", "no word equals"),
        (base(LAST, "in"), "New York", "no word equals"),
        (base(each(LAST), "==", **SENTENCES_ALL), "to AT&T", "no word equals"),
        (base(each(IDENTITY), "in"), ["New York"], "no word equals"),
        (base(each(IDENTITY), "not in"), ["New York"], "no word equals"),
        (base(IDENTITY, "in", **SENTENCES_ALL), ["a b"], "no word equals"),
        (base(each(LAST), "!=", "character", reduction="all"), "z", "a character has no parts"),
        (base(COUNT), 0, "a count is at least 0 here, so '>= 0' always holds"),
        (base(COUNT, ">"), -1, "'> -1' always holds"),
        (base(COUNT, "!="), -1, "'!= -1' always holds"),
        (base(COUNT, "=="), -1, "'== -1' never holds"),
        (base(COUNT, "<="), -1, "'<= -1' never holds"),
        (base(COUNT, "<"), 0, "'< 0' never holds"),
        (base(COUNT, unit="paragraph"), 1, "a count is at least 1 here"),
        (base(COUNT, "==", "paragraph"), 0, "a count is at least 1 here"),
        (base(COUNT, "<", input_level="paragraph"), 1, "a count is at least 1 here"),
        (base({"op": "max", "do": each(COUNT)}, "<", **SENTENCES), 0, "'< 0' never holds"),
        (
            base(each(COUNT), reduction="at least", reduction_value=0, **SENTENCES), 3,
            "'at least 0' always holds",
        ),
        (
            base(each(COUNT), reduction="at least", reduction_value=3, **SENTENCES), [3, 4],
            "'at least 3' never holds for 2 values",
        ),
        (
            base(FIRST_TWO, "==", reduction="exactly", reduction_value=3), "a",
            "'exactly 3' never holds for 2 values",
        ),
        (
            base(FIRST_TWO, "==", reduction="at most", reduction_value=2), "a",
            "'at most 2' always holds for 2 positions",
        ),
        (
            base(FIRST_TWO, "==", reduction="any"), ["a", "ab", "c"],
            "2 positions need as many targets, not 3",
        ),
    ],
)  # fmt: skip
def test_what_cannot_fail_or_cannot_pass_is_refused(
    constraint: dict[str, Any], target: Any, message: str
) -> None:
    with pytest.raises(DataInvalid) as refused:
        read({"level": "passage", "constraint": constraint, "targets": target}, "mine, item 3")
    assert str(refused.value).startswith("mine, item 3: ")
    assert message in str(refused.value)
    parsed, value = read_constraint(constraint, "c"), read_targets(target, "t")
    specification = Specification("passage", parsed, value)
    assert len({check(specification, text, UNITS).passed for text in TEXTS}) == 1


@pytest.mark.parametrize(
    ("constraint", "target"),
    [
        (base(of("Bird,")), 1),
        (base(of("well-known")), 1),
        (base(of("café")), 1),
        (base(of("n't")), 1),
        (base(of("...")), 1),
        (base(LAST, "=="), "1763–1864"),  # one word in the NLTK of the published data set
        (base(of("two words"), unit="sentence"), 1),
        (base(of("!"), unit="character"), 1),
        (base(of("bird"), "=="), 0),
        (base(COUNT, "!="), 0),
        (base(COUNT, ">"), 0),
        (base(COUNT, "<"), 1),
        (base(COUNT, unit="paragraph"), 2),
        (base(COUNT, within=[{"level": "paragraph", "index": 2}]), 0),  # the part may be missing
        (base({"op": "min", "do": each(COUNT)}, **SENTENCES), 0),
        (base(each(COUNT), reduction="all"), 3),
        (base(each(LAST), "==", reduction="all"), "d"),
        (base(each(IDENTITY), "not in"), ["the", "of"]),
        (base(each(COUNT), reduction="exactly", reduction_value=2, **SENTENCES), [3, 4]),
        (base(each(COUNT), reduction="at most", reduction_value=2, **SENTENCES), [3, 4]),
        (base(FIRST_TWO, "==", reduction="at most", reduction_value=1), "a"),
    ],
)
def test_what_can_fail_and_pass_is_accepted(constraint: dict[str, Any], target: Any) -> None:
    read({"level": "passage", "constraint": constraint, "targets": target})


def test_the_count_of_a_plug_in_may_be_negative() -> None:
    measured = read_constraint(base({"op": "measure", "name": "x"}), "c")
    assert isinstance(measured, Base)
    assert problem(measured, 0) == ""
