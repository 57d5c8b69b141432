"""The paper's claims name encodings that there are, and fields that the authors mean."""

import pytest

from harness.plugins import kind
from harness.tasks.natural_instructions.claims import CLAIMS, named_fields
from harness.tasks.natural_instructions.encodings import ENCODINGS, fields_of, label


def test_the_task_carries_them_without_being_built() -> None:
    plugin = kind("tasks").load("natural_instructions")
    assert plugin.claims is CLAIMS  # type: ignore[attr-defined]
    assert plugin.fields("_Prompt") == {"Prompt": "Prompt"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.test == "more"])
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
