"""What a wire format must do, in words that no provider owns.

A wire format reads a request body into an `Ask` and words the provider's
answers and errors; it knows nothing of faults, latency or counting. A new
format is one module with one class that fits `Wire`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    max_tokens: most tokens that one choice may have; None for no limit.
    """

    digest: str
    model: str
    turns: tuple[Turn, ...]
    n: int = 1
    max_tokens: int | None = None

    @property
    def prompt(self) -> str:
        """The last thing the user said."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user"), "")

    @property
    def prompt_tokens(self) -> int:
        """Estimated tokens of the conversation: its text, and a few for each turn's frame."""
        return 3 + sum(4 + tokens(turn.text) for turn in self.turns)


class Choice(Struct, frozen=True):
    """One answer."""

    text: str
    finish: Finish = "stop"

    @property
    def tokens(self) -> int:
        """Estimated tokens of the answer."""
        return tokens(self.text)


class Problem(Exception):
    """A request that is answered with an error, already worded for the wire.

    retry_after: seconds the client is asked to wait.
    """

    def __init__(self, status: int, body: bytes, retry_after: float | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.retry_after = retry_after


class Wire(Protocol):
    """One provider protocol, as the server speaks it."""

    @property
    def path(self) -> str:
        """Where requests are posted."""

    def credential(self, headers: Headers) -> str | None:
        """The key that a request carries."""

    def read(self, body: bytes, digest: str) -> Ask:
        """What a body asks for. Raises: Problem (400)."""

    def answer(self, ask: Ask, choices: Sequence[Choice], created: int) -> bytes:
        """The body of a 200."""

    def models(self, names: Collection[str]) -> bytes:
        """The list of the models there are."""

    def unauthorised(self, credential: str | None) -> Problem:
        """The key is missing or wrong."""

    def unknown_model(self, model: str) -> Problem:
        """There is no such model."""

    def invalid(self, message: str, code: str | None = None) -> Problem:
        """The request makes no sense."""

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> Problem:
        """A rate limit is reached; `level` is None where the refusal is a drawn fault."""

    def failed(self, status: int) -> Problem:
        """The provider itself failed."""

    def limit_headers(self, levels: Sequence[Level]) -> Headers:
        """How the state of the rate limits is told."""


def tokens(text: str) -> int:
    """Estimated tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def cut(text: str, max_tokens: int | None) -> Choice:
    """A text as a choice of at most so many tokens."""
    if max_tokens is None or tokens(text) <= max_tokens:
        return Choice(text)
    return Choice(text[: max_tokens * CHARACTERS_PER_TOKEN], "length")
