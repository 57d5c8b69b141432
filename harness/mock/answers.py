"""What the model says: a pure function of the request, so that runs repeat.

By default a few plain sentences that name the body's digest; or texts of the
user's own, by conversation. A conversation that a recording does not hold is
an error: a made-up answer among recorded ones would be scored in silence.

>>> recorded({"Name a colour.": "Blue."})(Ask("0a", "m", (Turn("user", "Name a colour."),)), 0)
'Blue.'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.mock.errors import MockError, NoAnswer
from harness.mock.wire import Ask, Turn

Answerer = Callable[[Ask, int], str]
"""The text of a request's n-th choice, from 0. Raises NoAnswer where there is none."""

_SENTENCES = (
    "The river rises in the hills and reaches the sea two days later.",
    "Nobody had opened the green door since the baker moved away.",
    "She counted the boats, wrote the number down, and closed the book.",
    "Most of the letters were short, and all of them were kind.",
    "In winter the road over the pass is shut from noon until morning.",
    "He tuned the old piano by ear, one string after another.",
    "The map was wrong about the lake but right about the bridge.",
    "They planted beans, onions and a single row of sunflowers.",
)


def invented(ask: Ask, index: int) -> str:
    """A text that differs for every body and choice, two to five sentences long."""
    noise = int(ask.digest[-8:], 16) + index
    count = 2 + noise % 4
    first = noise // 4
    said = (_SENTENCES[(first + i) % len(_SENTENCES)] for i in range(count))
    return f"This is mock answer {ask.digest}-{index}. {' '.join(said)}"


class _Message(msgspec.Struct):
    role: str
    content: str


class Recording(msgspec.Struct, forbid_unknown_fields=True):
    """A line of an answers file.

    prompt: the last user message, or the whole conversation as a list of
        messages; a whole conversation is the better match.
    """

    prompt: str | list[_Message]
    text: str


def recorded(texts: Mapping[str, str | Sequence[str]]) -> Answerer:
    """Answers by the last user message.

    Where a prompt has several texts, body and choice decide which one is given.
    """
    return _lookup({p: [t] if isinstance(t, str) else list(t) for p, t in texts.items()})


def read_recording(path: Path) -> Answerer:
    """The answers of a JSONL file, one `Recording` a line.

    Raises: MockError with file and line.
    """
    texts: dict[_Key, list[str]] = {}
    decoder = msgspec.json.Decoder(Recording)
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise MockError(f"Cannot read the answers in {path}: {error.strerror}.") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            recording = decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise MockError(
                f"{path}, line {number}: {error}. "
                'A line is {"prompt": …, "text": …}; prompt is a text or a list of messages.'
            ) from None
        texts.setdefault(_key(recording.prompt), []).append(recording.text)
    return _lookup(texts)


_Key = str | tuple[Turn, ...]


def _key(prompt: str | list[_Message]) -> _Key:
    if isinstance(prompt, str):
        return prompt
    return tuple(Turn(message.role, message.content) for message in prompt)


def _lookup(texts: Mapping[_Key, Sequence[str]]) -> Answerer:
    def answer(ask: Ask, index: int) -> str:
        found = texts.get(ask.turns) or texts.get(ask.prompt)
        if not found:
            raise NoAnswer(f"No recorded answer for the prompt that begins {ask.prompt[:80]!r}.")
        return found[(int(ask.digest, 16) + index) % len(found)]

    return answer
