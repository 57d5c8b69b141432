"""What a provider's protocol must do, in words that no provider owns.

A wire format reads a request body into an `Ask` and words the answer; its
vendor words keys, errors, limits and the list of models, the same way for all
of that vendor's formats. Neither knows of faults, latency or counting. A new
format is one module with one class that fits `Wire`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from harness.mock.limits import Level

Headers = list[tuple[bytes, bytes]]
Finish = Literal["stop", "length", "content_filter", "refusal"]

CHARACTERS_PER_TOKEN = 4
"""The usual rule of thumb for English; exact counts need a tokeniser, and a model to own it."""


class Turn(Struct, frozen=True):
    """One message of a conversation, its text parts joined."""

    role: str
    text: str


class Ask(Struct, frozen=True):
    """What a request asks for.

    digest: names the request's body, byte for byte.
    n: how many choices are wanted.
    max_tokens: most tokens that one choice may have, its reasoning included;
        None for no limit.
    stop: texts before which an answer ends.
    reasons: whether the model may reason before it answers.
    shows_reasoning: whether the text of that is wanted.
    logprobs: how many of each position's likeliest tokens are told; None for no
        log-probabilities at all.
    """

    digest: str
    model: str
    turns: tuple[Turn, ...]
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    reasons: bool = True
    shows_reasoning: bool = True
    logprobs: int | None = None

    @property
    def prompt(self) -> str:
        """The last thing the user said."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user"), "")

    @property
    def prompt_tokens(self) -> int:
        """Estimated tokens of the conversation: its text, and a few for each turn's frame."""
        return 3 + sum(4 + tokens(turn.text) for turn in self.turns)


class Position(Struct, frozen=True):
    """What could have been written at one place of an answer.

    token, logprob: what was written there.
    likeliest: tokens and their log-probabilities, most likely first.
    """

    token: str
    logprob: float
    likeliest: tuple[tuple[str, float], ...]


class Choice(Struct, frozen=True):
    """One answer.

    stop: the text that ended it, which is not part of it.
    reasoning: what was thought before it; reasoning_tokens: what that cost,
        which is more than the text has where the text is a summary.
    positions: of the text, not of the reasoning; None where nobody asked for them.
    """

    text: str
    finish: Finish = "stop"
    stop: str | None = None
    reasoning: str = ""
    reasoning_tokens: int = 0
    positions: tuple[Position, ...] | None = None

    @property
    def tokens(self) -> int:
        """Estimated tokens of the answer and its reasoning."""
        return tokens(self.text) + self.reasoning_tokens


class Problem(Exception):
    """A request that is answered with an error.

    error: what the vendor says of it, but for the request's id.
    retry_after: seconds the client is asked to wait.
    """

    def __init__(
        self, status: int, error: Mapping[str, object], retry_after: float | None = None
    ) -> None:
        super().__init__(status)
        self.status = status
        self.error = error
        self.retry_after = retry_after


class Vendor(Protocol):
    """One provider's way with everything but questions and answers."""

    def credential(self, headers: Headers) -> str | None:
        """The key that a request carries."""

    def models(self, names: Collection[str]) -> bytes:
        """The list of the models there are."""

    def headers(
        self, request_id: str, levels: Sequence[Level], retry_after: float | None = None
    ) -> Headers:
        """What is told beside a body: the request's id, the limits, when to come again."""

    def error(self, problem: Problem, request_id: str) -> bytes:
        """The body of an error."""

    def unauthorised(self, headers: Headers) -> Problem:
        """The key is missing or wrong."""

    def unknown_model(self, model: str) -> Problem:
        """There is no such model."""

    def invalid(self, message: str, code: str | None = None) -> Problem:
        """The request makes no sense."""

    def refused(self, parameter: str, value: object) -> Problem | None:
        """The model does not take this parameter; None where it does with this value."""

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> Problem:
        """A rate limit is reached; `level` is None where the refusal is a drawn fault."""

    def failed(self, status: int) -> Problem:
        """The provider itself failed."""


class Wire(Protocol):
    """One request and answer format, as the server speaks it."""

    @property
    def path(self) -> str:
        """Where requests are posted."""

    @property
    def vendor(self) -> Vendor:
        """Whose format it is."""

    def read(self, body: bytes, digest: str, headers: Headers) -> Ask:
        """What a request asks for. Raises: Problem (400)."""

    def answer(self, ask: Ask, choices: Sequence[Choice], created: int) -> bytes:
        """The body of a 200."""


def header(headers: Headers, name: bytes) -> str | None:
    """A header's value; its name in small letters."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def bearer(headers: Headers) -> str | None:
    """The token of ``Authorization: Bearer``."""
    scheme, _, key = (header(headers, b"authorization") or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def tokens(text: str) -> int:
    """Estimated tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def cut(text: str, max_tokens: int | None, stop: Sequence[str] = (), reasoning: str = "") -> Choice:
    """A text as a choice that ends before a stop string and has at most so many tokens.

    Reasoning comes first and counts: it may leave no room for the text.
    """
    matched = None
    if stop:
        text, matched = _stopped(text, stop)
    spent = tokens(reasoning)
    if max_tokens is None or spent + tokens(text) <= max_tokens:
        return Choice(text, "stop", matched, reasoning, spent)
    room = max(0, max_tokens - spent) * CHARACTERS_PER_TOKEN
    reasoning = reasoning[: max_tokens * CHARACTERS_PER_TOKEN]
    return Choice(text[:room], "length", None, reasoning, min(spent, max_tokens))


def _stopped(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    # A model writes from left to right: the first one complete ends it.
    found = [(at + len(s), at, s) for s in stop if s and (at := text.find(s)) >= 0]
    if not found:
        return text, None
    _, at, matched = min(found)
    return text[:at], matched
