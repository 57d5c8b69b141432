"""The audit finds what is wrong with an instance, and finds nothing where nothing is."""

from pathlib import Path
from typing import Any

import pytest

from harness.plugins.benchmarks import punkt
from harness.plugins.benchmarks.collie.constraints.check import Splitter, check
from harness.plugins.benchmarks.collie.constraints.grammar import Specification, read
from harness.plugins.benchmarks.collie.task import BUILTIN, CollieItem, read_items
from harness.plugins.builders.collie.audit import Audited, audit_items, near_misses, problems
from harness.workers import Workers

UNITS = Splitter(punkt.own(), punkt.word_tokens)
COUNT = {"op": "count"}
UNIT = {"op": "for_each", "do": {"op": "identity"}}
LAST = {"op": "position", "index": -1}


def base(target_level: str, transformation: Any, relation: str, **more: Any) -> dict[str, Any]:
    return {
        "target_level": target_level, "transformation": transformation, "relation": relation, **more
    }  # fmt: skip


def whole(*pairs: tuple[dict[str, Any], Any], level: str = "paragraph") -> Specification:
    return read(
        {
            "level": level,
            "constraint": {"logic": "all", "constraints": [one for one, _ in pairs]},
            "targets": [target for _, target in pairs],
        }
    )


WORDS, SENTENCES = base("word", COUNT, "=="), base("sentence", COUNT, "==")
AT_LEAST, AT_MOST = base("word", COUNT, ">="), base("word", COUNT, "<=")
HAS, HAS_NOT = base("word", UNIT, "in"), base("word", UNIT, "not in")
IS_NOT = base("word", COUNT, "!=")
TWO = base("word", {"op": "position", "index": [0, 1]}, "==")
THIRD = base("word", {"op": "position", "index": 2}, "==")
ENDS = base("word", {"op": "for_each", "do": LAST}, "==", input_level="sentence", reduction="all")


@pytest.mark.parametrize(
    ("pairs", "kinds"),
    [
        ([(WORDS, 5), (WORDS, 5)], ["duplicate"]),
        ([(WORDS, 5), (WORDS, [5])], ["duplicate"]),
        ([(HAS, "Snow"), (HAS, "snow,")], ["duplicate"]),
        ([(WORDS, 5), (WORDS, 6)], ["contradictory"]),
        ([(AT_LEAST, 9), (AT_MOST, 5)], ["contradictory"]),
        ([(AT_LEAST, 5), (AT_MOST, 9)], []),
        ([(AT_LEAST, 5), (AT_LEAST, 7)], ["implied"]),
        ([(AT_LEAST, 5), (WORDS, 7)], ["implied"]),
        ([(AT_LEAST, 9), (WORDS, 7)], ["contradictory"]),
        ([(HAS, ["snow", "rain"]), (HAS_NOT, "Rain")], ["contradictory"]),
        ([(HAS, "snow"), (HAS_NOT, "rain")], []),
        ([(THIRD, "snow"), (THIRD, "rain")], ["contradictory"]),
        ([(THIRD, "snow"), (HAS_NOT, "snow")], ["contradictory"]),
        ([(THIRD, "snow"), (SENTENCES, 1)], []),
        ([(ENDS, ["snow", "rain"]), (HAS_NOT, "rain")], ["contradictory"]),
        ([(WORDS, 5), (SENTENCES, 6)], []),
        ([(WORDS, 5), (IS_NOT, 5)], ["contradictory"]),
        ([(WORDS, 5), (IS_NOT, 6)], []),
        ([(TWO, ["rain", "fell"]), (TWO, ["rain", "went"])], ["contradictory"]),
        ([(TWO, ["rain", "fell"]), (THIRD, "snow")], []),
        ([(WORDS, 5), (WORDS, 5), (WORDS, 6)], ["duplicate", "contradictory", "contradictory"]),
    ],
)  # fmt: skip
def test_problems_of_a_constraint(pairs: list[Any], kinds: list[str]) -> None:
    assert [problem.partition(":")[0] for problem in problems(whole(*pairs))] == kinds


def test_what_stands_under_or_is_no_contradiction() -> None:
    either = {"logic": "or", "constraints": [WORDS, WORDS]}
    assert problems(read({"level": "sentence", "constraint": either, "targets": [3, 4]})) == []


REFERENCE = "The cold rain fell. It fell on the snow. Nobody saw the snow."


@pytest.mark.parametrize(
    "pair",
    [
        (base("character", COUNT, "=="), len(REFERENCE)),
        (base("character", COUNT, ">="), 20),
        (WORDS, 13), (AT_LEAST, 13), (AT_LEAST, 4), (AT_MOST, 13), (AT_MOST, 25),
        (SENTENCES, 3), (base("sentence", COUNT, ">="), 2), (base("sentence", COUNT, "<="), 3),
        (HAS, ["rain", "snow"]), (HAS_NOT, "sun"), (THIRD, "rain"),
        (ENDS, ["fell", "snow", "snow"]),
        (base("character", UNIT, "not in"), "z"),
        (base("word", {"op": "max", "do": {"op": "for_each", "do": COUNT}}, "<="), 6),
        (base("character", {"op": "for_each", "do": COUNT}, "<=", input_level="word",
              reduction="all"), 6),
        (base("word", {"op": "for_each", "do": COUNT}, ">=", input_level="sentence",
              reduction="all"), 4),
        (base("word", {"op": "for_each", "do": COUNT}, "<=", input_level="sentence",
              reduction="all"), 5),
        (base("sentence", {"op": "for_each", "do": COUNT}, ">=", input_level="paragraph",
              reduction="all"), 2),
        (base("sentence", {"op": "for_each", "do": LAST}, "==", input_level="paragraph",
              reduction="all"), ["Nobody saw the snow"]),
    ],
)  # fmt: skip
def test_a_near_miss_fails(pair: Any) -> None:
    asked = whole(pair)
    assert check(asked, REFERENCE, UNITS).passed
    [text], unbroken = near_misses(asked, REFERENCE, UNITS)
    assert not unbroken
    assert not check(asked, text, UNITS).passed


def test_near_misses_change_the_part_that_a_constraint_is_about() -> None:
    part = [{"level": "paragraph", "index": 1}, {"level": "sentence", "index": -1}]
    text = "One day it rained. It snowed.\n\nNobody saw it. They slept.\n\nThe end."
    asked = whole((base("word", COUNT, "==", within=part), 2), level="passage")
    [missed], unbroken = near_misses(asked, text, UNITS)
    assert not unbroken
    assert missed.startswith("One day it rained. It snowed.\n\nNobody saw it. ")


def test_each_part_has_a_near_miss_and_a_vacuous_one_is_reported() -> None:
    asked = whole((WORDS, 13), (HAS_NOT, "sun"), (AT_LEAST, 1))
    found, unbroken = near_misses(asked, REFERENCE, UNITS)
    assert unbroken == [2]
    broken = [{n for n, f in enumerate(check(asked, text, UNITS).findings) if not f.passed}
              for text in found]  # fmt: skip
    assert set.union(*broken) == {0, 1}
    assert near_misses(asked, "x", UNITS)[1]  # any text is taken


def audited(tmp_path: Path, *items: CollieItem) -> dict[str, Audited]:
    with Workers(1) as workers:
        return {one.id: one for one in audit_items(items, tmp_path, workers)}


def test_the_builtin_set_is_in_order(tmp_path: Path) -> None:
    found = audited(tmp_path, *read_items(BUILTIN))
    assert len(found) == 130
    assert all(one.passes and not one.problems and not one.unbroken for one in found.values())
    assert all(one.near_misses for one in found.values())
    assert not any(one.same_as for one in found.values())
    assert all(one.share is not None and one.natural >= 9 for one in found.values())


def test_wrong_instances_are_found(tmp_path: Path) -> None:
    def item(name: str, specification: Specification, example: str | None) -> CollieItem:
        return CollieItem(name, specification, name.rstrip("12"), example, "own", "own")

    found = audited(
        tmp_path,
        item("fails", whole((WORDS, 5)), "It has four words."),
        item("a1", whole((WORDS, 4)), "It has four words."),
        item("a2", whole((WORDS, 4)), "It has four words."),
        item("none", whole((WORDS, 4)), None),
        item("trivial", whole((AT_LEAST, 1)), "It has a word."),
        item("never", whole((WORDS, 4), (WORDS, 5)), None),
    )
    assert {name for name, one in found.items() if one.passes is False} == {"fails"}
    assert {name for name, one in found.items() if one.passes is None} == {"none", "never"}
    assert {name: one.same_as for name, one in found.items() if one.same_as} == {"a2": "a1"}
    assert found["trivial"].trivial
    assert found["trivial"].trivial_parts == ("with at least 1 word",)
    assert found["never"].problems
    assert not found["fails"].near_misses
    assert found["fails"].share == 0.0


@pytest.mark.parametrize("example", ["", "  ", "\n\n"])
def test_a_reference_answer_without_words_is_audited(example: str, tmp_path: Path) -> None:
    one = CollieItem(
        "a", whole((AT_MOST, 5), (SENTENCES, 0)), "Write nothing.", example, "s", "own"
    )
    found = audited(tmp_path, one)["a"]
    assert found.passes
    assert len(found.near_misses) == 2  # a letter more is a sentence, a sentence more is six words
    assert found.unbroken == ()
