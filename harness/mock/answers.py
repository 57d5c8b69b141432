"""What the model says: a pure function of the request, so that runs repeat.

By default a few plain sentences that name the body's digest; or texts of the
user's own, by conversation. A conversation that a recording does not hold is
an error: a made-up answer among recorded ones would be scored in silence.

>>> recorded({"Name a colour.": "Blue."})(Ask("0a", "m", (Turn("user", "Name a colour."),)), 0)
'Blue.'

An `Answer` brings with its text how sure the model was of it, for those who ask.

>>> Answer("Yes", [{"Yes": -0.1, "No": -2.4}]).text
'Yes'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from harness.mock.errors import MockError, NoAnswer
from harness.mock.wire import Ask, Turn


class Answer(msgspec.Struct, frozen=True):
    """A text, and what else could have been written.

    logprobs: of each position the log-probabilities of its tokens; empty for nearly sure ones.
    """

    text: str
    logprobs: Sequence[Mapping[str, float]] = ()


Answerer = Callable[[Ask, int], str | Answer]
"""A request's n-th choice, from 0. Raises NoAnswer where there is none."""

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


_Distribution = Annotated[dict[str, float], msgspec.Meta(min_length=1)]


class Recording(msgspec.Struct, forbid_unknown_fields=True):
    """A line of an answers file.

    prompt: the last user message, or the whole conversation as a list of
        messages; a whole conversation is the better match.
    logprobs: as of `Answer`.
    """

    prompt: str | list[_Message]
    text: str
    logprobs: list[_Distribution] = []


def recorded(answers: Mapping[str, str | Answer | Sequence[str | Answer]]) -> Answerer:
    """Answers by the last user message.

    Where a prompt has several answers, body and choice decide which one is given.
    """
    return _lookup({p: [a] if isinstance(a, str | Answer) else list(a) for p, a in answers.items()})


def read_recording(path: Path) -> Answerer:
    """The answers of a JSONL file, one `Recording` a line.

    Raises: MockError with file and line.
    """
    answers: dict[_Key, list[str | Answer]] = {}
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
                'A line is {"prompt": …, "text": …}; prompt is a text or a list of messages. '
                '"logprobs" may be a list of mappings from tokens to numbers.'
            ) from None
        text, told = recording.text, recording.logprobs
        answers.setdefault(_key(recording.prompt), []).append(Answer(text, told) if told else text)
    return _lookup(answers)


_Key = str | tuple[Turn, ...]


def _key(prompt: str | list[_Message]) -> _Key:
    if isinstance(prompt, str):
        return prompt
    return tuple(Turn(message.role, message.content) for message in prompt)


def _lookup(answers: Mapping[_Key, Sequence[str | Answer]]) -> Answerer:
    def answer(ask: Ask, index: int) -> str | Answer:
        found = answers.get(ask.turns) or answers.get(ask.prompt)
        if not found:
            raise NoAnswer(f"No recorded answer for the prompt that begins {ask.prompt[:80]!r}.")
        return found[(int(ask.digest, 16) + index) % len(found)]

    return answer
