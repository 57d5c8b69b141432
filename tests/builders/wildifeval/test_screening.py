import tempfile
from pathlib import Path

import pytest

from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.language import NAMES, Languages, _identifier, language_code
from harness.builders.wildifeval.screening import Screened, screen
from harness.config.curation import ScreenSection
from harness.errors import ConfigError, DataInvalid, StoreFailed

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
    assert Languages("en", 0.5).other(text) == ""


@pytest.mark.parametrize(
    ("label", "found"),
    [
        *[
            (label, "en")
            for label in ("English", "EN-us", "en_US", "eng", "English (US)", "eng_Latn")
        ],
        *[("Indonesian", "id"), ("Chinese (Simplified)", "zh"), ("zh-Hans-CN", "zh")],
        *[("Norwegian", "no"), ("nb", "no"), ("deu", "de"), ("Farsi", "fa")],
        *[(label, "") for label in ("", "N/A", "None", "Unknown", "und", "Nolang", "No language")],
        *[(label, "") for label in ("Klingon", "tlh", "English, Spanish", "??", "e n")],
    ],
)
def test_a_label_names_a_language_or_none(label: str, found: str) -> None:
    assert language_code(label) == found


def test_all_languages_that_are_told_apart_have_names() -> None:
    for own, names in NAMES.items():
        assert names.split()
        assert {language_code(name) for name in (own, *names.split())} == {own}


@pytest.mark.parametrize("label", ["N/A", "None", "Klingon", "multi"])
def test_a_label_that_names_none_leaves_it_to_the_classifier(label: str) -> None:
    english = Languages("en", 0.5)
    assert english.other("Write a letter to my mother about the school.", label) == ""
    assert english.other(SPANISH, label) == "es"


def test_the_label_of_a_rarer_language_that_is_kept_is_believed() -> None:
    text = "Tulis surat kepada ibu saya tentang sekolah."
    assert Languages("id", 0.5).other(text, "Indonesian") == ""
    assert Languages("ms", 0.5).other(text, "Indonesian") == "Indonesian"


def test_a_classifier_that_cannot_be_unpacked_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    _identifier.cache_clear()
    with pytest.raises(StoreFailed, match=r"cannot be unpacked.*No such file.*TMPDIR"):
        Languages("en", 0.5).other("Write a letter.")


def test_a_language_that_is_not_told_apart_is_refused() -> None:
    with pytest.raises(ConfigError, match="'tlh' is not told apart"):
        Languages("tlh", 0.5)


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
