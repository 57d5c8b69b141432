"""Encodings: those that the paper's claims name, their examples, and the evaluated instances."""

from typing import Any

import pytest

from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.plugins.benchmarks.natural_instructions.encodings import (
    ENCODINGS,
    FIELDS,
    InstructionItem,
    Showing,
    estimate,
    evaluated,
    example_pools,
    fields_of,
    label,
    named_fields,
    prompt,
)
from harness.plugins.benchmarks.natural_instructions.loading import (
    Entry,
    Example,
    Instruction,
    NaturalTask,
)
from harness.plugins.benchmarks.natural_instructions.task import NaturalInstructionsTask

COLOURS = Instruction(
    title="Colours",
    definition=" Name the colour. ",
    prompt="Which colour?",
    things_to_avoid="-",
    emphasis_and_caution="One word.\n",
    positive=(Example("snow", "white", "It is."), Example("coal ", "black", "So it is.")),
    negative=(
        Example("blood", "warm", "No colour.", "Say red."),
        Example("sky", "up", "No colour.", " "),
        Example("sea", "wet", "No colour."),
    ),
)


def test_paper_fields_are_stripped_and_absent_ones_left_out() -> None:
    fields = ("Emphasis & Caution", "Things to Avoid", "Definition")
    assert prompt("paper", COLOURS, fields, " grass ") == (
        "Emphasis & Caution: One word.\nDefinition: Name the colour.\ninput:  grass \noutput:"
    )
    assert prompt("paper", Instruction(), ("Prompt",), "grass") == "input: grass\noutput:"


def test_paper_examples_are_not_stripped() -> None:
    assert prompt("paper", COLOURS, ENCODINGS["positive_examples"], "grass", COLOURS.positive) == (
        "input: snow\noutput: white\ninput: coal \noutput: black\ninput: grass\noutput:"
    )


def test_paper_explanations_and_suggestions() -> None:
    positives = (*COLOURS.positive, Example("rust", "brown"))
    assert prompt("paper", COLOURS, ENCODINGS["full"], "grass", positives) == (
        "Definition: Name the colour.\nPrompt: Which colour?\nEmphasis & Caution: One word.\n"
        "Negative Example1- \ninput: blood\noutput: warm\nreason: No colour.suggestion: Say red.\n"
        "Negative Example2- \ninput: sky\noutput: up\nreason: No colour.\n"
        "Negative Example3- \ninput: sea\noutput: wet\nreason: No colour.\n"
        "Positive Example1- \ninput: snow\noutput: white\nreason: It is.\n"
        "Positive Example2- \ninput: coal \noutput: black\nreason: So it is.\n"
        "Positive Example3- \ninput: rust\noutput: brown\n"
        "input: grass\noutput:"
    )


def test_no_more_wrong_examples_than_right_ones() -> None:
    text = prompt("paper", COLOURS, ENCODINGS["full"], "grass", COLOURS.positive[:1])
    assert (text.count("Negative Example"), text.count("Positive Example")) == (1, 1)
    assert "Example" not in prompt("paper", COLOURS, ENCODINGS["full"], "grass")


def test_chat_says_the_same_in_paragraphs() -> None:
    positives = (*COLOURS.positive[:1], Example("rust", "brown"))
    assert prompt("chat", COLOURS, ENCODINGS["full"], " grass ", positives) == (
        "Definition: Name the colour.\n\nPrompt: Which colour?\n\nEmphasis & Caution: One word.\n\n"
        "Wrong example 1\nInput: blood\nOutput: warm\nReason: No colour.\nSuggestion: Say red.\n\n"
        "Wrong example 2\nInput: sky\nOutput: up\nReason: No colour.\n\n"
        "Example 1\nInput: snow\nOutput: white\nReason: It is.\n\n"
        "Example 2\nInput: rust\nOutput: brown\n\n"
        "Give the output for this input. Answer with the output alone.\n\nInput: grass"
    )
    plain = prompt("chat", COLOURS, ENCODINGS["positive_examples"], "grass", COLOURS.positive)
    assert "Reason" not in plain
    assert plain.startswith("Example 1\nInput: snow\nOutput: white\n\nExample 2\nInput: coal\n")


def test_an_encoding_is_a_name_a_list_or_the_authors_notation() -> None:
    assert fields_of("prompt_definition") == ("Definition", "Prompt")
    assert fields_of(["Prompt", "Title"]) == ("Prompt", "Title")
    assert fields_of("_Prompt_Things to Avoid") == ("Prompt", "Things to Avoid")
    assert fields_of([]) == fields_of("instance_only") == ()
    for fields in ENCODINGS.values():
        if fields:
            assert fields_of(label(fields)) == fields
    assert fields_of(label(())) == ()
    assert set(FIELDS) >= {field for fields in ENCODINGS.values() for field in fields}


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("promt", "no encoding 'promt'. Did you mean 'prompt'"),
        (["Defintion"], "no field 'Defintion' to encode. Did you mean 'Definition'"),
        ("_Prompt_Hints", "no field 'Hints'"),
        (["Prompt", "Prompt"], "names a field twice"),
    ],
)
def test_what_is_no_encoding_is_refused(encoding: str | list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fields_of(encoding)


def test_the_task_carries_them_without_being_built() -> None:
    plugin = kind("tasks").load("natural_instructions")
    claims = plugin.claims  # type: ignore[attr-defined]
    assert [claim.test for claim in claims] == ["more", "more", "rows_differ", "groups_differ"]
    assert plugin.fields("_Prompt") == {"Prompt": "Prompt"}  # type: ignore[attr-defined]


MORE = [claim for claim in NaturalInstructionsTask.claims or () if claim.test == "more"]


@pytest.mark.parametrize("claim", MORE)
def test_what_is_compared_differs_in_an_instruction(claim) -> None:
    more, less = (set(fields_of(encoding)) for encoding in (claim.more, claim.less))
    assert more > less
    assert more - less <= {"Definition", "Prompt"}


@pytest.mark.parametrize("fields", ENCODINGS.values())
def test_every_encodings_label_gives_its_fields_back(fields: tuple[str, ...]) -> None:
    assert tuple(named_fields(label(fields)).values()) == fields


def test_examples_of_right_answers_are_one_field() -> None:
    told = "_Prompt_Negative Examples Full Explanations_Positive Examples Full Explanations"
    more, less = named_fields(told), named_fields("_Prompt_Positive Examples Full Only")
    assert more.keys() - less.keys() == {"Negative Examples"}
    assert less["Positive Examples"] == "Positive Examples Full Only"
    assert more["Positive Examples"] == "Positive Examples Full Explanations"


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
    assert example_pools(task(*entries, positive=own), [1, 2]) == (
        own,
        (Example("in 0", "out 0"), Example("in 3", "out 3")),
    )


def test_nor_is_one_that_gives_an_answer_away() -> None:
    entries = (Entry("0", "grass ", ("Green.", "x")), Entry("1", "grass", ("green",)))
    own = (Example(" grass", "green"), Example("grass", "blue"))
    assert example_pools(task(*entries, positive=own), [1]) == ((own[1],), ())


def test_the_estimate_grows_with_the_text() -> None:
    assert estimate("") == 0
    assert estimate("a" * 35) == 10
    assert estimate("東京") == 4
    assert estimate("\ud800") > 0


def test_alternating_examples() -> None:
    fields = ["Prompt", "Alternating Examples Full Explanations"]
    said = prompt("chat", COLOURS, fields, "grass", COLOURS.positive)
    titles = [line for line in said.splitlines() if line.lower().startswith(("example", "wrong"))]
    assert titles == ["Example 1", "Wrong example 1", "Example 2", "Wrong example 2"]
    of_authors = prompt("paper", COLOURS, fields, "grass", COLOURS.positive).splitlines()
    titles = [line for line in of_authors if "Example" in line]
    assert titles == [
        *("Positive Example1- ", "Negative Example1- "),
        *("Positive Example2- ", "Negative Example2- "),
    ]
    assert "reason: No colour.suggestion: Say red." in of_authors
