"""The first filters, which ask no model: empty messages, language, code, toxicity, duplicates.

Chats that cannot be read are counted before them.

In this order, and each message is counted under the first one that holds.

>>> screen(read_chats([path]), ScreenSection())  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.code import signs
from harness.builders.wildifeval.language import Languages
from harness.builders.wildifeval.steps import Step
from harness.builders.wildifeval.toxicity import toxicities
from harness.config.curation import ScreenSection
from harness.errors import DataInvalid

BATCH = 1_000
"""Messages that are looked at together: the classifier's time is mostly that of a call."""

UNREADABLE = "unreadable"


class Screened(Struct):
    """What passed, and what did not."""

    chats: list[Chat]
    step: Step


def screen(chats: Iterable[Chat], by: ScreenSection) -> Screened:
    """Leave out what needs no model to be left out.

    Raises: ConfigError for a language that is not told apart; DataInvalid where no chat can be
        read; what reading the chats raises.
    """
    languages = Languages(by.language, by.other_language) if by.language else None
    step, kept, seen = Step("screen", 0), list[Chat](), set[bytes]()
    for batch in _batches(chats):
        step.before += len(batch)
        clean = [chat for chat in batch if not _plainly_out(chat, by, languages, step)]
        words = by.toxicity == "words"
        found = toxicities([chat.text for chat in clean]) if words else [0.0] * len(clean)
        for chat, probability in zip(clean, found, strict=True):
            digest = hashlib.blake2b(" ".join(chat.text.split()).encode(), digest_size=16).digest()
            if words and probability >= by.toxic_from:
                step.leave_out("toxic", chat.id, chat.text, f"probability {probability:.2f}")
            elif digest in seen:
                step.leave_out("duplicate", chat.id, chat.text)
            else:
                seen.add(digest)
                kept.append(chat)
    if step.before and step.removed.get(UNREADABLE) == step.before:
        raise DataInvalid(
            f"No chat can be read: {step.examples[UNREADABLE][0].detail}.",
            "docs/wildifeval_build.md has the shapes that are read.",
        )
    return Screened(kept, step)


def _plainly_out(chat: Chat, by: ScreenSection, languages: Languages | None, step: Step) -> bool:
    """Whether a message is left out by itself; counts it."""
    if chat.problem:
        step.leave_out(UNREADABLE, chat.id, "", chat.problem)
        return True
    if not chat.text.strip():
        step.leave_out("empty", chat.id, "")
        return True
    if languages and (other := languages.other(chat.text, chat.language if by.labels else "")):
        step.leave_out("language", chat.id, chat.text, other)
        return True
    if sign := signs(chat.text, by.code):
        step.leave_out("code", chat.id, chat.text, f"by {sign}")
        return True
    if by.labels and chat.toxic and by.toxicity:
        step.leave_out("toxic", chat.id, chat.text, "the log says so")
        return True
    return False


def _batches(chats: Iterable[Chat]) -> Iterator[list[Chat]]:
    left = iter(chats)
    while batch := list(islice(left, BATCH)):
        yield batch
