"""The first user messages of a chat log, as JSONL.

A line is one conversation, in one of these shapes:

    {"conversation_id": "a", "conversation": [{"role": "user", "content": "…"}, …]}
    {"id": "a", "messages": [{"role": "user", "content": "…"}, …]}
    {"id": "a", "conversations": [{"from": "human", "value": "…"}, …]}
    {"id": "a", "prompt": "…"}

The first is WildChat's and LMSYS-Chat-1M's; what these say of language and toxicity
(``language``, ``toxic``, ``openai_moderation``) is read, too. The third is ShareGPT's. A content
may be a list of parts, of which the texts count. A file may be packed (``.gz``). A line of another
shape is a chat with a problem: one among a million does not end a build.

>>> read_chats([Path("chats.jsonl")])  # doctest: +SKIP
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
    """The first user message of a conversation.

    text: as it was written; empty where no user says anything.
    language: what the log says it is, a name or a code; empty where it says nothing.
    toxic: whether the log says so.
    problem: why it cannot be read, with its place; empty where it can.
    """

    id: str
    text: str
    language: str = ""
    toxic: bool = False
    problem: str = ""


def read_chats(paths: Sequence[Path]) -> Iterator[Chat]:
    """The chats of some files, in their order. One without an id has its line's number.

    An id that is there already gets a number behind it: logs name a conversation by its content.

    Raises: DataInvalid, DataMissing where a file cannot be read.
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
    """The chat of a line; a line that is no object comes as what is wrong with it."""
    if isinstance(row, str):
        return Chat(number, "", problem=row)
    said = next((row[key] for key in IDS if isinstance(row.get(key), str | int)), number)
    name = str(said) or number
    chat = Chat(name, "", _language(row), _flagged(row))
    prompt = row.get("prompt")
    if isinstance(prompt, str) and prompt.strip():
        return replace(chat, text=prompt)
    lists = [row[key] for key in TURNS if isinstance(row.get(key), list)]
    turns = [turn for turn in next(filter(None, lists), []) if isinstance(turn, dict)]
    for turn in turns:
        if str(turn.get("role") or turn.get("from")).lower() in USERS:
            text = _text(turn["content"] if "content" in turn else turn.get("value"))
            if text is None:
                return replace(chat, problem="the content of its message is no text")
            toxic = chat.toxic or turn.get("toxic") is True
            return replace(chat, text=text, language=_language(turn) or chat.language, toxic=toxic)
    if any(lists) or not (lists or isinstance(prompt, str)):
        return replace(chat, problem="no chat: no conversation, messages or prompt of a user")
    return chat


def _text(content: Any) -> str | None:
    """The text of a content, or of its parts that have one; None where it is of another shape."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(text for part in content if (text := _part(part)))
    return _part(content)


def _part(part: Any) -> str | None:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _language(of: Mapping[str, Any]) -> str:
    said = of.get("language")
    return said.strip() if isinstance(said, str) else ""


def _flagged(row: Mapping[str, Any]) -> bool:
    """Whether the log says that the first message is toxic, or the conversation."""
    verdicts = row.get("openai_moderation")
    first = verdicts[0] if isinstance(verdicts, list) and verdicts else None
    flagged = isinstance(first, dict) and first.get("flagged") is True
    return flagged or row.get("toxic") is True
