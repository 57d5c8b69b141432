"""The simulated model's answers, which depend only on the request, so that runs are reproducible.

If answers are recorded, a conversation without one is an error, because a made-up answer would be
scored unnoticed.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from harness.plugins.mock import wire

SURE = 0.98  # probability of each token if an answer states no log-probabilities

_TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]+|\s+")
_ALTERNATIVES = [
    *(" the", " a", ",", ".", " and", "\n", " of", " to", " in", " is", " it", " that"),
    *(":", " for", " was", " on", " as", " with", " be", " at", " by", "-", " this"),
]
_NUMBER = re.compile(r'"([^"\n]{1,80} )s", where s is an integer from (\d{1,6}) to (\d{1,6})')
_LIST = re.compile(r"only output a Python LIST with (\d) elements? \('YES' or 'NO'\)")
_SENTENCES = Path(__file__).with_name("sentences.txt").read_text("utf-8").splitlines()


class Answer(msgspec.Struct, frozen=True):
    """The text of an answer, and the log-probabilities of possible tokens at each position."""

    text: str
    logprobs: Sequence[Mapping[str, float]] = ()  # if empty, each token has probability `SURE`


# Returns the answer for a request's choice with this index (from 0), or raises NoAnswer.
Answerer = Callable[[wire.MockRequest, int], str | Answer]
Answers = Answerer | Mapping[str, str | Answer | Sequence[str | Answer]] | Path


def answerer(answers: Answers | None) -> Answerer:
    """Convert the option ``answers`` of `MockServer` to a function."""
    if answers is None:
        return invented
    if isinstance(answers, Path):
        return read_recording(answers)
    return recorded(answers) if isinstance(answers, Mapping) else answers


def invented(request: wire.MockRequest, index: int) -> str | Answer:
    """Return a made-up verdict if the prompt asks for a verdict, otherwise made-up sentences."""
    noise = int(request.digest[-8:], 16) + index
    if (reply := verdict(request.prompt, noise)) is not None:
        return reply
    first = noise // 4
    count = 2 + noise % 4
    sentences = (_SENTENCES[(first + i) % len(_SENTENCES)] for i in range(count))
    return f"This is mock answer {request.digest}-{index}. {' '.join(sentences)}"


def verdict(prompt: str, noise: int) -> str | Answer | None:
    """Return a made-up verdict in the form that a prompt asks for, or None for an unknown form.

    The number ``noise`` determines the verdict.
    """
    prompt = prompt.rstrip()
    head = prompt[:600]
    last = prompt[-600:].rpartition("\n")[2]
    if match := _NUMBER.search(head):
        low = int(match[2])
        high = int(match[3])
        return f"I have looked at it. {match[1]}{low + noise % max(1, high - low + 1)}."
    if last.startswith("Verdict: "):
        listed = re.findall(r"(?m)^- (.+)$", prompt.rpartition("The choices are:")[2])
        names = listed if last.endswith("CHOICE") and listed else re.split(", | or ", last[9:])
        return f"I have looked at it.\nVerdict: {names[noise % len(names)]}"
    if "final answer alone" in head and last == "</judged_text>":
        return prompt.removesuffix(last).split()[-1]
    if match := _LIST.search(last):
        votes = [("YES", "NO")[noise >> place & 1] for place in range(int(match[1]))]
        return f"I have looked at it.\n{votes}"
    if "with either a YES or NO choice" in head:
        return ("YES", "NO")[noise % 2]
    if "yes or no" in last or last == "###Answer:":
        yes = (1 + noise % 99) / 100
        says = {"Yes": math.log(yes), "No": math.log(1 - yes)}
        return Answer(max(says, key=says.__getitem__), [says])
    return None


# Key of a recorded answer: the last user message or the whole conversation (tried first).
_Key = str | tuple[wire.Turn, ...]
_Distribution = Annotated[dict[str, float], msgspec.Meta(min_length=1)]


class _Recording(msgspec.Struct, forbid_unknown_fields=True):
    prompt: _Key
    text: str
    logprobs: list[_Distribution] = []


def recorded(answers: Mapping[str, str | Answer | Sequence[str | Answer]]) -> Answerer:
    """Return a function that looks up the answer to a request, or raises NoAnswer."""
    several: dict[_Key, Sequence[str | Answer]] = {}
    for prompt, answer in answers.items():
        several[prompt] = [answer] if isinstance(answer, str | Answer) else answer
    return _lookup(several)


def read_recording(path: Path) -> Answerer:
    """Read a JSONL file, and return a function that looks up a request's answer in it.

    A line is ``{"prompt": …, "text": …}``, where the prompt is the last user message or the whole
    conversation. Without an answer, the function raises NoAnswer.
    """
    answers: dict[_Key, list[str | Answer]] = {}
    decoder = msgspec.json.Decoder(_Recording)
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise wire.MockError(f"Cannot read the answers in {path}: {error.strerror}.") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            recording = decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise wire.MockError(
                f"{path}, line {number}: {error}. "
                'Write {"prompt": …, "text": …}; prompt is a string or a list of messages. '
                'Optional "logprobs" is a list of mappings from tokens to numbers.'
            ) from None
        answer: str | Answer = recording.text
        if recording.logprobs:
            answer = Answer(recording.text, recording.logprobs)
        answers.setdefault(recording.prompt, []).append(answer)
    return _lookup(answers)


def _lookup(answers: Mapping[_Key, Sequence[str | Answer]]) -> Answerer:
    def answer(request: wire.MockRequest, index: int) -> str | Answer:
        replies = answers.get(request.turns)
        prompt = request.prompt
        if not (replies := replies or answers.get(prompt)):
            raise wire.NoAnswer(f"No recorded answer for the prompt that begins {prompt[:80]!r}.")
        # The request's body and the choice's index select one of several answers.
        return replies[(int(request.digest, 16) + index) % len(replies)]

    return answer


def truncate(
    text: str, max_tokens: int | None, stop: Sequence[str] = (), reasoning: str = ""
) -> wire.ReplyChoice:
    """Return a choice, cut at the first stop string, and with its reasoning at ``max_tokens``."""
    matched = None
    # Models write from left to right: the first stop string to be completed ends the text.
    matches = [(start + len(s), start, s) for s in stop if s and (start := text.find(s)) >= 0]
    if matches:
        _, start, matched = min(matches)
        text = text[:start]
    spent = wire.count_tokens(reasoning)
    if max_tokens is None or spent + wire.count_tokens(text) <= max_tokens:
        return wire.ReplyChoice(text, "stop", matched, reasoning, spent)
    room = max(0, max_tokens - spent) * wire.CHARACTERS_PER_TOKEN
    reasoning = reasoning[: max_tokens * wire.CHARACTERS_PER_TOKEN]
    return wire.ReplyChoice(text[:room], "length", None, reasoning, min(spent, max_tokens))


def thought(request: wire.MockRequest, index: int) -> str:
    """Return made-up reasoning without an answer, different for each choice."""
    return (
        f"Let me think about request {request.digest}, choice {index}. "
        "A first draft would be: nothing at all. That does not answer it, so try again."
    )


def endless(request: wire.MockRequest) -> wire.ReplyChoice:
    """Return a choice without text, as if its reasoning had used up all tokens."""
    text = thought(request, 0)
    spent = wire.count_tokens(text) if request.max_tokens is None else request.max_tokens
    return wire.ReplyChoice("", "length", reasoning=text, reasoning_tokens=spent)


def inline(choice: wire.ReplyChoice) -> str:
    """Return the reasoning in ``<think>`` tags (unclosed if it was cut off), then the text."""
    if not choice.reasoning:
        return choice.text
    if choice.finish == "length" and not choice.text:
        return f"<think>\n{choice.reasoning}"
    return f"<think>\n{choice.reasoning}\n</think>\n\n{choice.text}"


def positions(
    text: str, distributions: Sequence[Mapping[str, float]], n: int
) -> tuple[wire.TokenPosition, ...]:
    """Return the tokens of an answer, each with the ``n`` likeliest tokens at its position.

    Without ``distributions``, the tokens are the words and punctuation marks of ``text``.
    """
    places = []
    offset = 0
    for distribution in distributions or map(_sure, _TOKEN.findall(text)):
        ranked = sorted(distribution.items(), key=lambda pair: -pair[1])
        token = ranked[0][0]
        for candidate, _ in ranked:  # the sampled token need not be the likeliest
            if candidate and text.startswith(candidate, offset):
                token = candidate
                offset += len(token)
                break
        places.append(wire.TokenPosition(token, distribution[token], tuple(ranked[:n])))
    return tuple(places)


def _sure(token: str) -> dict[str, float]:
    logprobs = {token: math.log(SURE)}
    share = 1 - SURE
    for alternative in _ALTERNATIVES:
        if alternative != token:
            share /= 2
            logprobs[alternative] = math.log(share)
    return logprobs
