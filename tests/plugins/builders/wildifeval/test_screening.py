import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError, DataInvalid
from harness.plugins.builders.corpora import JsonlRows
from harness.plugins.builders.wildifeval.curation_file import ScreenSection
from harness.plugins.builders.wildifeval.screening import (
    LANGUAGES,
    Chat,
    Screened,
    code_sign,
    examine,
    language_code,
    other_language,
    read_chats,
    screen,
)

SPANISH = "Escribe un poema de cuatro versos sobre la luna y el mar."


def screened(*chats: Chat, **changes: object) -> Screened:
    by = {"toxicity": None, **changes}  # the classifier takes seconds to load
    return screen(examine(chats, ScreenSection.model_validate(by)), [])


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


def test_detoxify_decides_where_it_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of Detoxify's shape: every text with a fool in it is toxic."""
    (tmp_path / "detoxify.py").write_text(
        "class Detoxify:\n"
        "    def __init__(self, name): assert name == 'original'\n"
        "    def predict(self, texts):\n"
        "        assert len(texts) <= 32\n"
        "        return {'toxicity': [0.7 * ('fool' in text) for text in texts]}\n"
    )
    chats = [Chat(f"{n}", f"Describe colour {n} to a {'fool' * (n % 2)}.") for n in range(70)]
    monkeypatch.setitem(sys.modules, "detoxify", None)
    with pytest.raises(ConfigError, match="needs the package detoxify"):
        screened(*chats, toxicity="detoxify")
    monkeypatch.delitem(sys.modules, "detoxify")
    monkeypatch.syspath_prepend(tmp_path)
    found = screened(*chats, toxicity="detoxify", toxic_from=0.6)
    assert found.step.removed == {"toxic": 35}
    assert len(screened(*chats, toxicity="detoxify", toxic_from=0.8).chats) == 70


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


def chats(folder: Path, *rows: Any) -> list[Chat]:
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read(path)


def read(path: Path) -> list[Chat]:
    return list(read_chats(JsonlRows(path)))


def turns(*said: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in said]


@pytest.mark.parametrize(
    "row",
    [
        {"conversation_id": "a", "conversation": turns(("user", "Hi"), ("assistant", "Ho"))},
        {"id": "a", "messages": turns(("system", "Be kind."), ("user", "Hi"), ("user", "Again"))},
        {"id": "a", "messages": turns(("user", [{"type": "text", "text": "Hi"}, {"image": 1}]))},
        {"id": "a", "messages": turns(("user", {"type": "text", "text": "Hi"}))},
        {"id": "a", "messages": turns(("user", ["Hi"]))},
        {"id": "a", "messages": turns(("User", "Hi"))},
        {"id": "a", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt"}]},
        {"id": "a", "conversation": [], "messages": turns(("user", "Hi"))},
        {"id": "a", "prompt": "", "messages": turns(("user", "Hi"))},
        {"id": "a", "prompt": turns(("user", "Hi"))},
        {"id": "a", "prompt": "Hi"},
    ],
)
def test_the_first_message_of_the_user_is_read(row: dict[str, Any], tmp_path: Path) -> None:
    assert chats(tmp_path, row) == [Chat("a", "Hi")]


def test_a_conversation_in_which_no_user_speaks_is_empty(tmp_path: Path) -> None:
    rows = [{"id": "a", "messages": []}, {"id": "b", "messages": turns(("user", None))}]
    assert [chat.text for chat in chats(tmp_path, *rows)] == ["", ""]


def test_ids_are_unique(tmp_path: Path) -> None:
    rows = [{"prompt": "a"}, {"id": "x", "prompt": "b"}, {"id": "x", "prompt": "c"}]
    rows += [{"id": "x#2", "prompt": "d"}, {"id": "x", "prompt": "e"}, {"id": 7, "prompt": "f"}]
    found = screened(*chats(tmp_path, *rows), language=None).chats
    assert [chat.id for chat in found] == ["1", "x", "x#2", "x#2#2", "x#3", "7"]
    assert [chat.text for chat in found] == list("abcdef")


def test_what_the_log_says_is_read(tmp_path: Path) -> None:
    wild = {"id": "a", "language": "French", "toxic": True, "conversation": turns(("user", "Hi"))}
    own = {"role": "user", "content": "Hi", "language": "English", "toxic": False}
    lmsys = {"id": "c", "openai_moderation": [{"flagged": True}, {}], "prompt": "Hi"}
    later = {
        "id": "d",
        "openai_moderation": [{"flagged": False}, {"flagged": True}],
        "prompt": "Hi",
    }
    turn = {"id": "b", "language": "French", "messages": [own]}
    found = chats(tmp_path, wild, turn, lmsys, later)
    assert [(chat.language, chat.toxic) for chat in found] == [
        *(("French", True), ("English", False), ("", True), ("", False)),
    ]


def test_logs_may_be_packed_and_several(tmp_path: Path) -> None:
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"id": "a", "prompt": "Ho"}\n'))
    plain = tmp_path / "a.jsonl"
    plain.write_text('{"id": "a", "prompt": "Hi"}\n')
    found = screened(*read(plain), *read(packed), language=None).chats
    assert found == [Chat("a", "Hi"), Chat("a#2", "Ho")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "a"}', "not a chat"),
        ('{"id": "a", "messages": "Hi"}', "not a chat"),
        ('{"id": "a", "messages": null}', "not a chat"),
        ('{"id": "a", "messages": [{"role": "assistant", "content": "Ho"}]}', "not a chat"),
        ('{"id": "a", "messages": ["Hi"]}', "not a chat"),
        ('{"id": "a", "messages": [{"role": "user", "content": 1}]}', "is not text"),
        ('{"id": "a", "messages": [{"role": "user", "content": {"parts": []}}]}', "is not text"),
        ('[{"id": "a", "prompt": "Hi"}]', "not a JSON object"),
        ('{"id": "a", "prompt": "Hi', "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"id": "a", "prompt": [' + "[" * 900 + "]" * 900 + "]}", "not a chat"),
    ],
)
def test_one_that_cannot_be_read_is_told_with_its_place_and_the_others_are_read(
    line: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(f'{{"prompt": "Hi"}}\n\n{line}\n{{"prompt": "Ho"}}\n')
    first, bad, last = read(path)
    assert (first.text, bad.text, last.text) == ("Hi", "", "Ho")
    assert bad.problem.startswith("chats.jsonl, line 3: ")
    assert problem in bad.problem
    assert first.problem == last.problem == ""


def test_half_an_emoji_and_a_mark_of_byte_order_are_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"prompt": "Hi"}\n{"id": "b", "prompt": "\\ud83d\\ude00 \\ud83d \xc3\xa4"}\n'
    )
    assert read(path) == [Chat("1", "Hi"), Chat("b", "\U0001f600 \ufffd ä")]


def test_parts_within_parts_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    deep = "[" * 900 + '"no"' + "]" * 900
    content = f'["Hi", {deep}, {{"type": "text", "text": "you"}}]'
    path.write_text(f'{{"id": "a", "messages": [{{"role": "user", "content": {content}}}]}}\n')
    assert [chat.text for chat in read(path)] == ["Hi\nyou"]
