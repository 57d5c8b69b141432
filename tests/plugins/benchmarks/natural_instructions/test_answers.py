"""Ways of failing, on answers that GPT-3 gave and others like them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError
from harness.plugins.benchmarks.natural_instructions.encodings import InstructionItem
from harness.plugins.benchmarks.natural_instructions.task import NaturalInstructionsTask, failures
from harness.records import Instance, Score, verdict

TEXT = " Yes.\n\ninput: Is it?"


def scored(
    outputs: list[str], text: str, labels: Collection[str] = (), **options: Any
) -> Mapping[str, Score]:
    item = InstructionItem("1", "", "", tuple(outputs), 0, frozenset(labels))
    task = NaturalInstructionsTask(**options, data=DataFolder(Path("nowhere")))
    return task.score(Instance("1", item), text)


def test_both_rouges_are_told_whatever_the_truncation() -> None:
    for truncation, passed in (("none", False), ("first_line", True)):
        scores = scored(["yes"], TEXT, truncation=truncation)
        assert list(scores) == [
            *("rouge_l", "rouge_l_first_line", "exact_match", "token_f1"),
            *("redundant", "goes_on", "copies_input"),
        ]
        assert scores["rouge_l"].value == pytest.approx(0.4)
        assert scores["rouge_l_first_line"].value == 1.0
        assert scores["exact_match"].passed is passed
        assert verdict(scores) is passed
    assert scores["rouge_l"].passed is scores["token_f1"].passed is None


def test_references_with_words_that_rouge_l_ignores_have_another_rouge_l() -> None:
    scores = scored(["Да, мир"], "да мир")
    assert (scores["rouge_l"].value, scores["rouge_l_unicode"].value) == (0, 1)
    assert "rouge_l_unicode" in scores["rouge_l"].details["warning"]
    answer = scored(["yes"], "да")
    assert "warning" in answer["rouge_l"].details
    assert "rouge_l_unicode" not in answer
    assert scored(["བོད"], "བོད")["rouge_l_unicode"].value is None


def test_a_stop_sequence_has_a_rouge_of_its_own() -> None:
    scores = scored(["yes"], TEXT, truncation="stop", stop=["input:"])
    assert scores["rouge_l_stop"].value == 1.0
    assert scores["exact_match"].passed


def test_a_label_counts_though_more_follows() -> None:
    scores = scored(["Yes."], "Yes, it is.", {"yes", "no"})
    assert (scores["accuracy"].value, scores["accuracy"].passed) == (True, None)
    assert not scores["exact_match"].passed
    wrong = scored(["Yes."], "No.", {"yes", "no"})
    assert (wrong["accuracy"].value, wrong["accuracy"].reason) == (False, "")
    none = scored(["Yes."], "Perhaps.", {"yes", "no"})
    assert (none["accuracy"].value, none["accuracy"].reason) == (False, "names no label")
    assert [found["no_label"].value for found in (scores, wrong, none)] == [False, False, True]


def test_the_reason_quotes_a_reference_in_short() -> None:
    reason = scored(["x" * 1000], "y")["exact_match"].reason
    assert reason.startswith("not 'xxx")
    assert len(reason) < 80


@pytest.mark.parametrize(
    ("truncation", "stops"), [("stop", ()), ("none", ("x",)), ("first_line", ("x",))]
)
def test_a_truncation_and_its_stops_go_together(truncation: str, stops: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="go together"):
        scored(["yes"], TEXT, truncation=truncation, stop=list(stops))
    with pytest.raises(ConfigError, match="empty"):
        scored(["yes"], TEXT, truncation="stop", stop=[""])


SOURCE = "Sentence: The dog jumped over the fence to get the bone. Question: Did it still jump?"


def ways(text: str, references: tuple[str, ...] = ("No.",)) -> set[str]:
    found = failures(text, references, SOURCE)
    assert set(found) == {"redundant", "goes_on", "copies_input"}
    return {name for name, failed in found.items() if failed}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No, it was done by then.", {"redundant"}),
        (" no.\n\nPrompt: Provide a positive answer", {"redundant", "goes_on"}),
        (" Yes.\noutput: The story establishes", {"goes_on"}),
        (" membranes\npositive example- \ninput: Sentence1: I opened a", {"goes_on"}),
        ("Positive Example2- x", {"goes_on"}),
        (" The dog jumped over the fence to get the bone.", {"copies_input"}),
        ("Nothing of the kind", set()),
        ("Yes.", set()),
        ("No..", set()),
        ("the fence", set()),
    ],
)
def test_ways_of_failing(text: str, expected: set[str]) -> None:
    assert ways(text) == expected


def test_a_copy_is_right_where_the_references_are_copies() -> None:
    assert ways("The dog jumped over the fence", ("jumped over the fence to get",)) == set()


def test_input_in_the_middle_of_a_sentence_is_no_new_field() -> None:
    assert "goes_on" not in ways("The input: none")


@given(st.text())
def test_a_right_answer_fails_in_no_way(text: str) -> None:
    assert ways(text, ("another", text)) == set()
