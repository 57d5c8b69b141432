import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders.wildifeval.replies import (
    Category,
    Decomposition,
    category,
    chosen,
    decomposition,
    numbered_names,
    sameness,
)
from harness.errors import Unparseable


def test_a_reply_in_the_form_that_was_asked_for() -> None:
    assert decomposition(
        "Task: Write a poem.\nContext: It is for\n my son.\n\nConstraints:\n"
        "1. It should be short,\n   at most four lines.\n2. It should rhyme.\n"
    ) == Decomposition(
        "Write a poem.",
        "It is for my son.",
        ("It should be short, at most four lines.", "It should rhyme."),
    )


@pytest.mark.parametrize(
    "reply",
    [
        "**Task:** Write.\n**Context:** None.\n**Constraints:**\n1) Be brief.\n2) Be kind.",
        "## Task: Write.\n## Context: none\n## Constraints:\n- Be brief.\n* Be kind.",
        "Here it is.\n\ntask: Write.\ncontext:\nconstraint:\n 1. Be brief.\n 2. Be kind.",
        "Task: Write.\nConstraints:\n1. Be brief.\n2. be  BRIEF\n3. Be kind.\n4. none",
    ],
)
def test_forms_that_models_have(reply: str) -> None:
    assert decomposition(reply) == Decomposition("Write.", "", ("Be brief.", "Be kind."))


FIRST, SECOND = "The card should be short.", "The card should be kind."


@pytest.mark.parametrize(
    "remark",
    [
        "\n\nLet me know if you need anything else!",
        "\n```",
        "\n```\nThat is all.",
        "\n---\nNote: the list is complete.",
        "\n\n* * *\n- I have made none up.\n\n  I hope so.",
        "\n\nRemarks:\n- The first is vague.",
        "\n\n***",
    ],
)
def test_what_is_said_after_the_list_is_none_of_it(remark: str) -> None:
    found = decomposition(f"Task: x\nConstraints:\n1. {FIRST}\n2. {SECOND}{remark}")
    assert found.constraints == (FIRST, SECOND)


@pytest.mark.parametrize(
    ("listed", "constraints"),
    [
        (
            "1) List:\n   - apples\n   - pears\n2) Be brief.",
            ("List: - apples - pears", "Be brief."),
        ),
        ("1) List:\n- apples\n- pears\n2) Be brief.", ("List: - apples - pears", "Be brief.")),
        ("1. List:\n\n   1. apples\n\n2. Be brief.", ("List: 1. apples", "Be brief.")),
        ("- List:\n\t* apples\n- Be brief.", ("List: * apples", "Be brief.")),
        (" 9. List.\n10. Be brief.", ("List.", "Be brief.")),
        ("1. List.\n\n2. Be brief,\n   please.", ("List.", "Be brief, please.")),
        ("\nHere they are:\n\n1. List.\n2. Be brief.", ("List.", "Be brief.")),
        ("\n```\n1. List.\n2. Be brief.\n```\n", ("List.", "Be brief.")),
        ("none\n\nThere really are none.", ()),
        ("none\n```", ()),
    ],
)
def test_lists_that_models_write(listed: str, constraints: tuple[str, ...]) -> None:
    assert decomposition(f"Constraints:\n{listed}").constraints == constraints


@pytest.mark.parametrize("said", ["none", "None.", "", "\nn/a", "- none"])
def test_no_constraints(said: str) -> None:
    assert decomposition(f"Task: Write.\nContext: none\nConstraints: {said}").constraints == ()


@pytest.mark.parametrize(
    "reply",
    [
        "I cannot do that.",
        "Task: Write.\nContext: none",
        "Constraints: it should be short and it should rhyme",
        f"Constraints:\n1. {'x ' * 600}",
        "Task: x\nConstraints:\n1. It should begin with\nTask: xyz\n2. It should be short.",
        "Constraints:\n1. Be brief.\n\nContext: none",
        "Constraints:\n1. Be brief.\n\nAnd then:\n2. Be kind.",
    ],
)
def test_what_cannot_be_read_is_no_empty_list(reply: str) -> None:
    with pytest.raises(Unparseable):
        decomposition(reply)


def test_sameness() -> None:
    assert sameness("Be  Brief.") == sameness("be brief") != sameness("be brief?")


@given(st.text(alphabet="Task:Constraints1.-*\n ", max_size=2_000))
def test_any_reply_is_read_or_refused(reply: str) -> None:
    try:
        found = decomposition(f"Constraints:{reply}")
    except Unparseable:
        return
    assert all(text == text.strip() and "\n" not in text for text in found.constraints)
    assert len(set(map(sameness, found.constraints))) == len(found.constraints)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("Length", Category("Length")),
        ("4. Length", Category("Length")),
        ("4", Category("Length")),
        ("**Format and structure**\nsince it speaks of lists", Category("Format and Structure")),
        ("include/avoid", Category("Include / Avoid")),
        ("Include / Avoid.", Category("Include / Avoid")),
        ("Other: Visual Aesthetic", Category("Other", "Visual Aesthetic")),
        ("9. Other: *Visual*", Category("Other", "Visual")),
        ("Other", Category("Other")),
        ("Otherwise", Category()),
        ("12", Category()),
        ("0", Category()),
        ("It is about length and style.", Category()),
        ("", Category()),
    ],
)
def test_the_kind_that_a_reply_names(reply: str, found: Category) -> None:
    assert category(reply) == found


def test_a_title_is_bounded() -> None:
    assert len(category("Other: " + "x" * 10_000).title) <= 60


def test_lists_of_names() -> None:
    said = "Sure:\n1. Sports\n2) **Travel**: going places\n- sports\n3. Art - all of it\n"
    assert numbered_names(said) == ["Sports", "Travel", "Art"]
    assert numbered_names("Sports, Travel") == []
    assert numbered_names("1. " + "x" * 100) == []


def test_what_is_chosen_from_a_list() -> None:
    names = ["Sports", "3D Printing", "Art & Music"]
    assert chosen("sports", names) == "Sports"
    assert chosen("2. 3D printing", names) == "3D Printing"
    assert chosen("3d printing", names) == "3D Printing"
    assert chosen("\n3\n", names) == "Art & Music"
    assert chosen("Art and Music", names) == ""
    assert chosen("", names) == ""
