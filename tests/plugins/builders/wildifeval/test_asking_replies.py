import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Unparseable
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES
from harness.plugins.builders.wildifeval.asking import (
    Decomposition,
    category,
    chosen,
    decomposition,
    numbered_names,
    numbering,
    sameness,
)

FROM_1 = dict(enumerate(CATEGORIES, start=1))


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


OTHER_HEADINGS = """Separate them.
Original Instruction: a rap with slang
Translated Task: Write a rap. Translated Context:
Translated Constraints:
1. Use slang.
Original Instruction: {message}
"""


@pytest.mark.parametrize(
    ("end", "reply"),
    [
        ("Translated Task:", "Write.\nTranslated Context: none\nTranslated Constraints:\n"),
        ("Translated Task:\n", "Write. Translated Context:\nTranslated Constraints:\n"),
        ("Translated Task:", "Translated Task: Write.\n**Translated Constraints:**\n"),
        ("", "Translated Task: Write.\nTranslated Context:\nTranslated constraints: \n"),
    ],
)
def test_the_headings_are_those_of_the_prompt(end: str, reply: str) -> None:
    listed = "1. Mention the task: what it is.\n2. Be kind."
    found = decomposition(reply + listed, OTHER_HEADINGS + end)
    assert found == Decomposition("Write.", "", ("Mention the task: what it is.", "Be kind."))
    with pytest.raises(Unparseable):
        decomposition(f"Translated Constraints:\n{listed}", "Constraints:\n1. Use slang.")


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
        ("Length", ("Length", "")),
        ("4. Length", ("Length", "")),
        ("4", ("Length", "")),
        ("**Format and structure**\nsince it speaks of lists", ("Format and Structure", "")),
        ("include/avoid", ("Include / Avoid", "")),
        ("Include / Avoid.", ("Include / Avoid", "")),
        ("Other: Visual Aesthetic", ("Other", "Visual Aesthetic")),
        ("9. Other: *Visual*", ("Other", "Visual")),
        ("Other", ("Other", "")),
        ("Otherwise", None),
        ("12", None),
        ("0", None),
        ("It is about length and style.", None),
        ("", None),
    ],
)
def test_the_kind_that_a_reply_names(reply: str, found: tuple[str, str] | None) -> None:
    assert category(reply, FROM_1) == found


@pytest.mark.parametrize(
    ("prompt", "first", "last"),
    [
        ("{n}. *{name}*: about it\nExamples: \n - Be brief.", 0, 7),
        ("{n}. {name}", 1, 8),
        ("({n}) {name} - about it", 3, 10),
        ("[{n}] {name}", 0, 7),
    ],
)
def test_a_number_is_the_one_that_the_prompt_gives(prompt: str, first: int, last: int) -> None:
    names = list(reversed(CATEGORIES))  # the prompt's order, too
    lines = [prompt.format(n=n, name=name) for n, name in enumerate(names, start=first)]
    numbers = numbering("\n".join(lines), CATEGORIES)
    assert category(str(first), numbers) == (names[0], "")
    assert category(f"{last}.", numbers) == (names[-1], "")
    for outside in {max(0, first - 1), last + 1, 99} - {first}:
        assert category(str(outside), numbers) is None, "never shifted"


def test_without_numbers_or_with_two_meanings_a_number_is_no_choice() -> None:
    assert numbering("One of Sports, Travel.\n- Sports\n- Travel", ["Sports", "Travel"]) == {}
    numbers = numbering("1. Sports\n2. Travel\n\n1. Travel", ["Sports", "Travel"])
    assert [chosen(n, ["Sports", "Travel"], numbers) for n in "123"] == ["", "Travel", ""]


def test_a_title_is_bounded() -> None:
    found = category("Other: " + "x" * 190, {})
    assert found
    assert len(found[1]) == 60


def test_lists_of_names() -> None:
    said = "Sure:\n1. Sports\n2) **Travel**: going places\n- sports\n3. Art - all of it\n"
    assert numbered_names(said) == ["Sports", "Travel", "Art"]
    assert numbered_names("Sports, Travel") == []
    assert numbered_names("1. " + "x" * 100) == []
    assert numbered_names("Sports\n\nArt & Music\nsports\n") == ["Sports", "Art & Music"]
    assert numbered_names("Sports\nI cannot name more.") == []


def test_what_is_chosen_from_a_list() -> None:
    names = ["Sports", "3D Printing", "Art & Music"]
    numbers = dict(enumerate(names, start=1))
    assert chosen("sports", names, numbers) == "Sports"
    assert chosen("2. 3D printing", names, numbers) == "3D Printing"
    assert chosen("3d printing", names, numbers) == "3D Printing"
    assert chosen("\n3\n", names, numbers) == "Art & Music"
    assert chosen("Art and Music", names, numbers) == ""
    assert chosen("", names, numbers) == ""
