import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.builders.wildifeval.screening import Chat, read_chats


def chats(folder: Path, *rows: Any) -> list[Chat]:
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read_chats([path]))


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
    found = chats(tmp_path, *rows)
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
    assert list(read_chats([plain, packed])) == [Chat("a", "Hi"), Chat("a#2", "Ho")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "a"}', "no chat"),
        ('{"id": "a", "messages": "Hi"}', "no chat"),
        ('{"id": "a", "messages": null}', "no chat"),
        ('{"id": "a", "messages": [{"role": "assistant", "content": "Ho"}]}', "no chat"),
        ('{"id": "a", "messages": ["Hi"]}', "no chat"),
        ('{"id": "a", "messages": [{"role": "user", "content": 1}]}', "is not text"),
        ('{"id": "a", "messages": [{"role": "user", "content": {"parts": []}}]}', "is not text"),
        ('[{"id": "a", "prompt": "Hi"}]', "not a JSON object"),
        ('{"id": "a", "prompt": "Hi', "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"id": "a", "prompt": [' + "[" * 900 + "]" * 900 + "]}", "no chat"),
    ],
)
def test_one_that_cannot_be_read_is_told_with_its_place_and_the_others_are_read(
    line: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(f'{{"prompt": "Hi"}}\n\n{line}\n{{"prompt": "Ho"}}\n')
    first, bad, last = read_chats([path])
    assert (first.text, bad.text, last.text) == ("Hi", "", "Ho")
    assert bad.problem.startswith("chats.jsonl, line 3: ")
    assert problem in bad.problem
    assert first.problem == last.problem == ""


def test_half_an_emoji_and_a_mark_of_byte_order_are_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"prompt": "Hi"}\n{"id": "b", "prompt": "\\ud83d\\ude00 \\ud83d \xc3\xa4"}\n'
    )
    assert list(read_chats([path])) == [Chat("1", "Hi"), Chat("b", "\U0001f600 \ufffd ä")]


def test_parts_within_parts_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    deep = "[" * 900 + '"no"' + "]" * 900
    content = f'["Hi", {deep}, {{"type": "text", "text": "you"}}]'
    path.write_text(f'{{"id": "a", "messages": [{{"role": "user", "content": {content}}}]}}\n')
    assert [chat.text for chat in read_chats([path])] == ["Hi\nyou"]
