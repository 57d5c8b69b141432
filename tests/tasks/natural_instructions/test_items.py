from typing import Any

from harness.tasks.natural_instructions.encodings import ENCODINGS
from harness.tasks.natural_instructions.items import Item, Showing
from harness.tasks.natural_instructions.schema import Entry, Example, Instruction, NaturalTask

TASK = NaturalTask(
    "t",
    Instruction(prompt="Count.", positive=(Example("one", "1"), Example("two", "2"))),
    tuple(Entry(str(n), f"number {n}", (f"{n}.", str(n))) for n in range(10)),
)


def items(category: str = "generation", **options: Any) -> list[Item]:
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
    def count(text: str) -> int:
        return len(text)

    (one,) = {item.n_examples for item in items(examples="fit", count=count, token_budget=100)}
    assert max(len(item.prompt) for item in items(examples=one)) <= 100
    assert max(len(item.prompt) for item in items(examples=one + 1)) > 100
    assert {i.n_examples for i in items(examples="fit", count=count, token_budget=1)} == {0}


def test_labels_are_those_of_a_classification() -> None:
    assert items()[0].labels == frozenset()
    assert items("classification")[0].labels == frozenset(map(str, range(10)))
