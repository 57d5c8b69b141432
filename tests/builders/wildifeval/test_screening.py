import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders.wildifeval.screening import (
    LANGUAGES,
    Chat,
    Screened,
    code_sign,
    language_code,
    other_language,
    screen,
)
from harness.config.curation import ScreenSection
from harness.errors import ConfigError, DataInvalid

SPANISH = "Escribe un poema de cuatro versos sobre la luna y el mar."


def screened(*chats: Chat, **changes: object) -> Screened:
    by = {"toxicity": None, **changes}  # the classifier takes seconds to load
    return screen(chats, ScreenSection.model_validate(by))


def test_each_is_counted_under_the_first_reason_that_holds() -> None:
    found = screened(
        Chat("a", "Write a poem about snow."),
        Chat("b", " \n"),
        Chat("c", SPANISH),
        Chat("d", "Write code that sorts names."),
        Chat("e", f"{SPANISH} ``` code"),
        Chat("f", "Write a poem \n about snow. "),
        Chat("g", "Write a poem about Snow."),
    )
    assert [chat.id for chat in found.chats] == ["a", "g"]
    assert found.step.removed == {"empty": 1, "language": 2, "code": 1, "duplicate": 1}
    assert found.step.left == 2
    assert [one.detail for one in found.step.examples["language"]] == ["es", "es"]


def test_chats_that_cannot_be_read_are_counted_and_named() -> None:
    bad = [Chat(str(n), "", problem=f"a.jsonl, line {n}: no chat") for n in range(2)]
    found = screened(*bad, Chat("a", "Write a poem about snow."))
    assert [chat.id for chat in found.chats] == ["a"]
    assert found.step.removed == {"unreadable": 2}
    assert found.step.examples["unreadable"][1].detail == "a.jsonl, line 1: no chat"
    with pytest.raises(DataInvalid, match=r"No chat can be read: a\.jsonl, line 0: no chat"):
        screened(*bad)


def test_what_the_log_says_decides_where_it_is_believed() -> None:
    chats = [
        Chat("a", "Write a poem about snow.", language="Spanish"),
        Chat("b", SPANISH, language="English"),
        Chat("c", SPANISH, language="en"),
        Chat("d", SPANISH, language="Unknown"),
        Chat("e", "Name a colour of the sea.", toxic=True),
    ]
    believed = screened(*chats, toxicity="model")
    assert [chat.id for chat in believed.chats] == ["b"]  # c is the same text
    assert believed.step.removed == {"language": 2, "toxic": 1, "duplicate": 1}
    assert [chat.id for chat in screened(*chats, labels=False).chats] == ["a", "e"]


def test_parts_of_it_can_be_left_out() -> None:
    chats = [Chat("a", SPANISH), Chat("b", "Write code."), Chat("c", "Hi", toxic=True)]
    assert len(screened(*chats, language=None, code=[]).chats) == 3


@pytest.mark.parametrize("text", ["hi", "Hello", "Write a haiku", "List 5 names", "xyz 123"])
def test_of_a_few_words_nothing_is_known(text: str) -> None:
    assert other_language(text, "en", 0.5) == ""


@pytest.mark.parametrize(
    ("label", "found"),
    [
        *[(label, "en") for label in ("English", "EN-us", "en_US", "English (US)")],
        *[("Indonesian", "id"), ("Chinese (Simplified)", "zh"), ("zh-Hans-CN", "zh")],
        *[("Norwegian", "no"), ("pt-BR", "pt"), ("fa", "fa")],
        *[(label, "") for label in ("", "N/A", "None", "Unknown", "und", "Nolang", "No language")],
        *[(label, "") for label in ("Klingon", "tlh", "eng", "English, Spanish", "??", "e n")],
    ],
)
def test_a_label_names_a_language_or_none(label: str, found: str) -> None:
    assert language_code(label) == found


def test_all_languages_have_names() -> None:
    for own, name in LANGUAGES.items():
        assert language_code(own) == language_code(name) == own
    assert len(LANGUAGES) == 43


@pytest.mark.parametrize("label", ["N/A", "None", "Klingon", "multi"])
def test_a_label_that_names_none_leaves_it_to_the_classifier(label: str) -> None:
    text = "Write a letter to my mother about the school."
    assert other_language(text, "en", 0.5, label) == ""
    assert other_language(SPANISH, "en", 0.5, label) == "es"


def test_the_label_of_a_rarer_language_that_is_kept_is_believed() -> None:
    text = "Tulis surat kepada ibu saya tentang sekolah."
    assert other_language(text, "id", 0.5, "Indonesian") == ""
    assert other_language(text, "ms", 0.5, "Indonesian") == "Indonesian"


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ConfigError, match="'tlh' cannot be distinguished"):
        screened(language="tlh")


def test_toxic_words_are_found_and_plain_ones_are_not() -> None:
    found = screened(
        Chat("a", "Write a poem about snow."),
        Chat("b", "You fucking idiot, write a poem."),
        Chat("c", "Write to the people of Scunthorpe about the assassin's class."),
        toxicity="words",
    )
    assert [chat.id for chat in found.chats] == ["a", "c"]
    assert found.step.examples["toxic"][0].detail.startswith("probability 0.9") or (
        found.step.examples["toxic"][0].detail == "probability 1.00"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Explain:\n```\nx\n```",
        "def f(x):\n    return x",
        "import os\nfrom a.b import c, d",
        "#include <stdio.h>\nint main() {\n}",
        "SELECT name FROM friends\nWHERE x\nDELETE FROM friends",
        "<html>\n<body>\nHello\n</body>",
        "const a = 1;\nlet b = 2;",
        "x = f(1)\ny = g(2)",
    ],
)
def test_lines_that_stand_as_code_does(text: str) -> None:
    assert code_sign(text, ("shape",)) == "shape"
    assert code_sign(text, ()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Write a poem.\nReturn to the sea in its last line.\nIt must rhyme; twice.",
        "From Monday on we have new hours:\n- Monday (9 to 5);\n- Tuesday (10 to 6);",
        "For my class I need three things: a song, a game, and a story.",
        "Dear Sir,\nwith regret I must say:\nno.\nYours (still)",
        "Import duties are high.\nExport is not.",
        "Make a table with the columns name = first, age = second",
    ],
)
def test_prose_is_none(text: str) -> None:
    assert code_sign(text, ("word", "shape")) == ""


def test_the_paper_s_rule_takes_the_letters_anywhere() -> None:
    assert code_sign("What is the dress CODE there?", ("word", "shape")) == "word"
    assert code_sign("What is the dress code there?", ("shape",)) == ""


@given(st.text(alphabet="({[<=;:)]}> a_.\n", max_size=3_000))
def test_any_text_is_decided_on(text: str) -> None:
    assert code_sign(text, ("word", "shape")) in ("", "word", "shape")
