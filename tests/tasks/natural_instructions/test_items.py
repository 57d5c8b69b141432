from typing import Any

import pytest

from harness.tasks.natural_instructions.encodings import (
    ENCODINGS,
    InstructionItem,
    Showing,
    estimate,
    evaluated,
    shown,
)
from harness.tasks.natural_instructions.loading import Entry, Example, Instruction, NaturalTask

TASK = NaturalTask(
    "t",
    Instruction(prompt="Count.", positive=(Example("one", "1"), Example("two", "2"))),
    tuple(Entry(str(n), f"number {n}", (f"{n}.", str(n))) for n in range(10)),
)


def items(category: str = "generation", **options: Any) -> list[InstructionItem]:
    showing = {"fields": ENCODINGS["positive_examples"], "form": "paper", "instances": 4}
    return list(Showing(**showing | options).items(TASK, category))


def test_the_numbers_of_examples() -> None:
    assert {item.n_examples for item in items()} == {2}
    assert {item.n_examples for item in items(examples=1)} == {1}
    assert {item.n_examples for item in items(examples={"t": 5})} == {5}
    assert {item.n_examples for item in items(examples=8)} == {8}
    assert {item.n_examples for item in items(fields=ENCODINGS["prompt"])} == {0}


def test_no_prompt_shows_an_evaluated_instance() -> None:
    found = items(examples=8)
    assert [item.id for item in found] == ["t/6", "t/7", "t/8", "t/9"]
    asked = [item.prompt.splitlines()[-2] for item in found]
    assert asked == ["input: number 6", "input: number 7", "input: number 8", "input: number 9"]
    for item in found:
        assert sum(item.prompt.count(line) for line in asked) == 1


def test_as_many_examples_as_fit_the_longest_prompt() -> None:
    (one,) = {item.n_examples for item in items(examples="fit", token_budget=30)}
    assert one > 0
    assert max(estimate(item.prompt) for item in items(examples=one)) <= 30
    assert max(estimate(item.prompt) for item in items(examples=one + 1)) > 30
    assert {i.n_examples for i in items(examples="fit", token_budget=1)} == {0}


def test_labels_are_those_of_a_classification() -> None:
    assert items()[0].labels == frozenset()
    assert items("classification")[0].labels == frozenset(map(str, range(10)))


@pytest.mark.parametrize(("n", "step"), [(160, 1), (176, 1), (430, 3), (500, 4), (6500, 64)])
def test_the_authors_hundred(n: int, step: int) -> None:
    assert evaluated(n, 100) == list(range(60, 60 + 100 * step, step))


@pytest.mark.parametrize("n", [1, 8, 60, 159, 160, 430])
def test_a_larger_number_takes_the_same_ones_and_more(n: int) -> None:
    for wanted in range(1, 100):
        fewer, more = evaluated(n, wanted), evaluated(n, wanted + 1)
        assert len(fewer) == min(n, wanted)
        if n >= 160:
            assert more[: len(fewer)] == fewer


def test_all_and_more_than_there_are() -> None:
    assert evaluated(8, None) == evaluated(8, 50) == list(range(8))
    assert evaluated(200, None) == evaluated(200, 500) == list(range(60, 200))
    assert evaluated(70, 20) == list(range(50, 70))


def task(*entries: Entry, positive: tuple[Example, ...] = ()) -> NaturalTask:
    return NaturalTask("t", Instruction(positive=positive), entries)


def test_evaluated_instances_are_no_examples() -> None:
    entries = [Entry(str(n), f"in {n}", (f"out {n}", "other")) for n in range(4)]
    own = (Example("snow", "white", "It is."),)
    assert shown(task(*entries, positive=own), [1, 2]) == (
        own,
        (Example("in 0", "out 0"), Example("in 3", "out 3")),
    )


def test_nor_is_one_that_gives_an_answer_away() -> None:
    entries = (Entry("0", "grass ", ("Green.", "x")), Entry("1", "grass", ("green",)))
    own = (Example(" grass", "green"), Example("grass", "blue"))
    assert shown(task(*entries, positive=own), [1]) == ((own[1],), ())


def test_the_estimate_grows_with_the_text() -> None:
    assert estimate("") == 0
    assert estimate("a" * 35) == 10
    assert estimate("東京") == 4
    assert estimate("\ud800") > 0
