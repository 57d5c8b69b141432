"""The first user messages of a chat log in JSONL, in the formats of docs/wildifeval_build.md.

A line in another format becomes a chat with a ``problem``, and does not end the build.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from harness.builders.loaders.jsonl import json_rows
from harness.records import encodable

IDS = ("conversation_id", "id", "conversation_hash")
TURNS = ("conversation", "messages", "conversations", "prompt")
USERS = ("user", "human")


class Chat(Struct, frozen=True):
    """The first user message of a conversation, empty if there is none.

    Attributes:
        language: The log's label, a name or a code; may be empty.
        toxic: Whether the log labels it as toxic.
        problem: Why and where it cannot be read; empty if it can.
    """

    id: str
    text: str
    language: str = ""
    toxic: bool = False
    problem: str = ""


def read_chats(paths: Sequence[Path]) -> Iterator[Chat]:
    """Read the chats of some files, in their order.

    A chat without an id is named by its line's number. A repeated id gets a number appended: some
    logs name a conversation by its content.
    """
    seen: dict[str, int] = {}
    for path in paths:
        for number, row in json_rows(path):
            chat = _chat(row, str(number))
            if chat.problem:
                chat = replace(
                    chat, problem=f"{encodable(path.name)}, line {number}: {chat.problem}"
                )
            name = chat.id
            while chat.id in seen:
                seen[name] += 1
                chat = replace(chat, id=f"{name}#{seen[name]}")
            seen[chat.id] = 1
            yield chat


def _chat(row: Mapping[str, Any] | str, number: str) -> Chat:
    """Return the chat of a row; for a line that is not an object, ``row`` describes the problem."""
    if isinstance(row, str):
        return Chat(number, "", problem=row)
    said = next((row[key] for key in IDS if isinstance(row.get(key), str | int)), number)
    chat = Chat(str(said) or number, "", _language(row), _flagged(row))
    prompt = row.get("prompt")
    if isinstance(prompt, str) and prompt.strip():
        return replace(chat, text=prompt)
    lists = [row[key] for key in TURNS if isinstance(row.get(key), list)]
    for turn in next(filter(None, lists), []):
        if isinstance(turn, dict) and str(turn.get("role") or turn.get("from")).lower() in USERS:
            text = _text(turn["content"] if "content" in turn else turn.get("value"))
            if text is None:
                return replace(chat, problem="the content of its message is not text")
            toxic = chat.toxic or turn.get("toxic") is True
            return replace(chat, text=text, language=_language(turn) or chat.language, toxic=toxic)
    if any(lists) or not (lists or isinstance(prompt, str)):
        return replace(chat, problem="no chat: it has no message of a user")
    return chat


def _text(content: Any) -> str | None:
    """Return the text of a content or of its parts, or None if it is in another format."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(_part, content)))
    return "" if content is None else _part(content)


def _part(part: Any) -> str | None:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _language(of: Mapping[str, Any]) -> str:
    said = of.get("language")
    return said.strip() if isinstance(said, str) else ""


def _flagged(row: Mapping[str, Any]) -> bool:
    """Return whether the log labels the first message or the conversation as toxic."""
    match row.get("openai_moderation"):
        case [{"flagged": True}, *_]:
            return True
    return row.get("toxic") is True
