"""Inspect's messages as the harness has them: a role and a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.exchange.foreign_json import mapping, sequence, text
from harness.records import Message, encodable

ATTACHMENT = "attachment://"


class Messages:
    """Reads the messages of a sample.

    attachments: long texts that the log keeps in one place, by their hash.
    """

    def __init__(self, attachments: Mapping[str, Any]) -> None:
        self._attachments = attachments

    def text(self, content: Any) -> str:
        """The text of a content; what is no text (a picture, a tool's call) as ``[kind]``."""
        if isinstance(content, str):
            if content.startswith(ATTACHMENT):
                content = text(self._attachments.get(content[len(ATTACHMENT) :])) or content
            return encodable(content)
        parts = []
        for part in sequence(content):
            if isinstance(part, str):
                parts.append(self.text(part))
            elif mapping(part).get("type") == "text":
                parts.append(self.text(part.get("text")))
            elif mapping(part).get("type") != "reasoning":
                parts.append(f"[{encodable(text(mapping(part).get('type')))}]")
        return "\n".join(parts)

    def reasoning(self, content: Any) -> str | None:
        """What the model thought, where the content tells."""
        thought = [
            self.text(part.get("reasoning"))
            for part in map(mapping, sequence(content))
            if part.get("type") == "reasoning"
        ]
        return "\n".join(filter(None, thought)) or None

    def conversation(self, given: Any) -> tuple[Message, ...]:
        """A text, which the user says, or messages; a tool's answer is the user's turn."""
        if isinstance(given, str):
            return (Message("user", self.text(given)),)
        return tuple(self._message(mapping(message)) for message in sequence(given))

    def _message(self, message: Mapping[str, Any]) -> Message:
        said = self.text(message.get("content"))
        match message.get("role"):
            case "system":
                return Message("system", said)
            case "assistant":
                return Message("assistant", said)
            case _:
                return Message("user", said)
