"""The first user messages of a chat log, as JSONL.

A line is one conversation, in one of these shapes:

    {"conversation_id": "a", "conversation": [{"role": "user", "content": "…"}, …]}
    {"id": "a", "messages": [{"role": "user", "content": "…"}, …]}
    {"id": "a", "prompt": "…"}

The first is WildChat's and LMSYS-Chat-1M's; what these say of language and toxicity
(``language``, ``toxic``, ``openai_moderation``) is read, too. A content may be a list of parts, of
which the texts count. A file may be packed (``.gz``).

>>> read_chats([Path("chats.jsonl")])  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid

IDS = ("conversation_id", "id", "conversation_hash")
TURNS = ("conversation", "messages")


class Chat(Struct, frozen=True):
    """The first user message of a conversation.

    text: as it was written; empty where no user says anything.
    language: what the log says it is, a name or a code; empty where it says nothing.
    toxic: whether the log says so.
    """

    id: str
    text: str
    language: str = ""
    toxic: bool = False


def read_chats(paths: Sequence[Path]) -> Iterator[Chat]:
    """The chats of some files, in their order. One without an id has its line's number.

    An id that is there already gets a number behind it: logs name a conversation by its content.

    Raises: DataInvalid for a line of another shape, naming it; DataMissing.
    """
    seen: dict[str, int] = {}
    for path in paths:
        for number, row in enumerate(read_jsonl(path), start=1):
            chat = _chat(row, f"{path}, item {number}", str(number))
            name = chat.id
            while chat.id in seen:
                seen[name] += 1
                chat = Chat(f"{name}#{seen[name]}", chat.text, chat.language, chat.toxic)
            seen[chat.id] = 1
            yield chat


def _chat(row: Mapping[str, Any], where: str, number: str) -> Chat:
    said = next((row[key] for key in IDS if isinstance(row.get(key), str | int)), number)
    name = str(said) or number
    toxic = _flagged(row)
    if isinstance(row.get("prompt"), str):
        return Chat(name, row["prompt"], _language(row), toxic)
    turns = next((row[key] for key in TURNS if isinstance(row.get(key), list)), None)
    if turns is None:
        raise DataInvalid(
            f"{where}: no chat: it has no conversation, no messages and no prompt.",
            "docs/wildifeval_build.md has the shapes that are read.",
        )
    for turn in turns:
        if isinstance(turn, dict) and turn.get("role") == "user":
            text = _text(turn.get("content"), where)
            language = _language(turn) or _language(row)
            return Chat(name, text, language, toxic or turn.get("toxic") is True)
    return Chat(name, "", _language(row), toxic)


def _text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    raise DataInvalid(f"{where}: the content of a message must be a text.")


def _language(of: Mapping[str, Any]) -> str:
    said = of.get("language")
    return said.strip() if isinstance(said, str) else ""


def _flagged(row: Mapping[str, Any]) -> bool:
    """Whether the log says that the first message is toxic, or the conversation."""
    verdicts = row.get("openai_moderation")
    first = verdicts[0] if isinstance(verdicts, list) and verdicts else None
    flagged = isinstance(first, dict) and first.get("flagged") is True
    return flagged or row.get("toxic") is True
