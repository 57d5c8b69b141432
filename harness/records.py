"""The plain records that travel through the harness.

Frozen, slotted and cheap: a run makes hundreds of thousands of them. They hold
no behaviour beyond what follows from their own fields, and nothing here reads
a file, a clock or the network.

>>> Message("user", "Name a colour.").role
'user'
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

SCHEMA_VERSION = 1
"""Version of a line in ``attempts.jsonl`` (its ``v``)."""

Role = Literal["system", "user", "assistant"]
Outcome = Literal["ok", "truncated", "refused", "empty", "unparseable", "error"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "truncated", "refused", "empty", "unparseable", "error")

REFUSALS = frozenset({"refusal", "content_filter"})
"""Finish reasons of a refused answer, which may have no text, however often it is asked for."""

D = TypeVar("D")


class Message(Struct, frozen=True):
    """One turn of a conversation."""

    role: Role
    content: str


ConstraintKind = Literal["json_schema", "regex", "choices", "grammar"]
"""What an answer can be held to while it is decoded; of a backend, a feature."""


@dataclass(frozen=True, slots=True)
class DecodingConstraint:
    """What the decoder may write, and nothing else: just one of these.

    Attributes:
        json_schema: An object that the answer, as JSON, is valid against.
        regex: A regular expression that matches the whole answer.
        choices: The answers there are.
        grammar: In the server's own notation (EBNF, GBNF).
    """

    json_schema: dict[str, Any] | None = None
    regex: str | None = None
    choices: tuple[str, ...] = ()
    grammar: str | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    def __post_init__(self) -> None:
        if len(self.given()) != 1:
            raise ValueError("constraint is one of json_schema, regex, choices, grammar")

    @property
    def kind(self) -> ConstraintKind:
        """Which one."""
        return cast("ConstraintKind", next(iter(self.given())))

    def given(self) -> dict[str, Any]:
        """Return the one that is set, by its kind."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items() if value not in (None, ())}


MOST_LOGPROBS = 20
"""Tokens of a position that may be asked for, which is also OpenAI's bound."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the model is asked to decode. ``None`` means: the provider's default.

    A dataclass, not a struct, because run files are validated by pydantic,
    which reads dataclasses directly: the fields are written down once.

    Attributes:
        temperature: Sampling temperature.
        max_tokens: Most tokens the answer may have.
        top_p: Nucleus sampling mass.
        stop: Strings at which the answer ends.
        extra: Further fields of the provider's request body, as they stand (``reasoning_effort``,
            ``thinking``, …).
        constraint: What the answer is held to; ``task`` for what the task says of each instance.
        logprobs: How many of the most likely tokens of each position are asked for, with their
            log-probabilities; None for none.
        prompt_logprobs: Whether the log-probability of each token of the prompt is asked for.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    constraint: DecodingConstraint | Literal["task"] | None = None
    logprobs: int | None = None
    prompt_logprobs: bool | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    def __post_init__(self) -> None:
        if self.logprobs is not None and not 1 <= self.logprobs <= MOST_LOGPROBS:
            raise ValueError(f"logprobs must be 1 to {MOST_LOGPROBS}")

    def given(self) -> dict[str, Any]:
        """Return the fields that are set, by name."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if isinstance(self.constraint, DecodingConstraint):
            fields["constraint"] = self.constraint.given()
        return {
            name: value
            for name, value in fields.items()
            if value not in (None, (), {}) and value is not False
        }


class Instance(Struct, Generic[D], frozen=True):
    """One task item.

    Attributes:
        id: Unique within the task's data set.
        data: Whatever the task needs to prompt and to score.
        groups: Labels for breakdowns, coarse first; the first one steers ``--limit``.
        cluster: Coarser statistical unit than the prompt, if the data has one.
    """

    id: str
    data: D
    groups: Mapping[str, str] = {}
    cluster: str | None = None


class Criterion(Struct, frozen=True):
    """One of the things that an answer to an instance has to satisfy, in a sentence.

    Attributes:
        groups: Its own labels, each with a group; ``category`` for what kind of criterion it is.
    """

    text: str
    groups: Mapping[str, str] = {}


class Origin(Struct, frozen=True):
    """Which attempt a request is for: never part of the cache key.

    sample counts from 0, round from 1.
    """

    instance: str
    sample: int
    round: int


class Request(Struct, frozen=True):
    """What is asked of a backend.

    Attributes:
        seed: The provider's seed (not the run's), None where none is sent.
        sample: Which of the k independent answers this is, from 0.
        redraw: How often this answer was drawn before, where the user wants another (``--retry
            truncated``); 0 for the first.
    """

    model: str
    messages: tuple[Message, ...]
    decoding: Decoding
    sample: int
    origin: Origin
    seed: int | None = None
    redraw: int = 0


class Question(Struct, frozen=True):
    """What a judge asks about an answer.

    Attributes:
        messages: To the judging model.
        decoding: How it decodes. Temperature and max_tokens are dropped if its backend does not
            take them.
        samples: How many independent replies are drawn.
    """

    messages: tuple[Message, ...]
    decoding: Decoding
    samples: int = 1


class Usage(Struct, frozen=True):
    """Tokens of one call as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class Allowance(Struct, frozen=True):
    """What a provider says of one of its rate limits, in an answer's headers.

    Attributes:
        limit: Units a minute.
        remaining: Units left now.
        reset_s: Seconds until the limit is untouched again. None where the provider does not say.
    """

    unit: Literal["requests", "tokens", "input_tokens", "output_tokens"]
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


class TokenLogprob(Struct, frozen=True, array_like=True):
    """A token that a model could have written at some position, and its log-probability."""

    token: str
    logprob: float


Logprobs = tuple[tuple[TokenLogprob, ...], ...]
"""Of each of an answer's first positions the likeliest tokens, most likely first."""

MOST_POSITIONS = 20
"""Positions of an answer whose log-probabilities are kept."""

PromptLogprobs = tuple[TokenLogprob | None, ...]
"""Of each token of a prompt the log-probability; None of those that have none, as the first."""


class Reply(Struct, frozen=True):
    """A provider's complete answer.

    Attributes:
        finish_reason: ``stop``, ``length``, ``content_filter``, ``refusal``, or the provider's own
            word where it is none of these.
        reasoning: What a reasoning model thought before its answer, where it tells.
        model: The model that the provider says has answered.
        usage: None where the provider did not count.
        logprobs, prompt_logprobs: Where they were asked for; None where the provider gives none.
    """

    text: str
    finish_reason: str
    usage: Usage | None = None
    model: str | None = None
    latency_s: float = 0.0
    reasoning: str | None = None
    logprobs: Logprobs | None = None
    prompt_logprobs: PromptLogprobs | None = None


class Call(Struct, frozen=True):
    """A reply and the paid call it came from.

    Attributes:
        id: The call's cache key in hex; attempts that share a call share this id.
        cached: The reply was there already and cost nothing now.
    """

    id: str
    reply: Reply
    cached: bool
    started_at: float
    ended_at: float


class Score(Struct, frozen=True):
    """What a checker, validator or judge says of one answer.

    Attributes:
        value: The measurement; None where it could not be made (never 0).
        passed: The verdict, None where this score gives none.
    """

    value: bool | float | None
    passed: bool | None = None
    reason: str = ""
    details: Mapping[str, Any] = {}


class Rewriting(Struct, frozen=True):
    """A second model's polishing of an instruction or a feedback.

    Attributes:
        used: Whether it kept all that it must; else the text stayed as it was.
        call_id, usage, cost_usd, cached: Of its call; none where that failed.
    """

    of: Literal["instruction", "feedback"]
    used: bool
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    error: str | None = None


class Attempt(Struct, frozen=True):
    """One line of ``attempts.jsonl``: a reply with its scores.

    Named by (instance, sample, round). ``request`` holds the messages and
    parameters in round 1; later rounds hold the hash of the messages and
    ``follows``, the round whose line they continue.

    Attributes:
        cluster: Hash of the round-1 messages without shots, or the instance's coarser label.
        started_at, ended_at: Seconds since the epoch.
        polish: What a second model made of the instruction (round 1) and of the feedback.
    """

    v: int
    instance: str
    sample: int
    round: int
    groups: Mapping[str, str]
    cluster: str
    request: Mapping[str, Any]
    outcome: Outcome
    started_at: float
    ended_at: float
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    passed: bool | None = None
    scores: Mapping[str, Score] = {}
    feedback: str | None = None
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    cached: bool = False
    error: str | None = None
    polish: tuple[Rewriting, ...] = ()


_canonical = msgspec.json.Encoder(order="deterministic")


def content_hash(value: Any) -> str:
    """Hash of a value's canonical JSON, 32 hex digits."""
    return hashlib.blake2b(_canonical.encode(value), digest_size=16).hexdigest()


def messages_hash(messages: Sequence[Message]) -> str:
    """Hash of a conversation, 32 hex digits; identifies the prompt in clusters and attempts."""
    return content_hash(messages)


def encodable(text: str) -> str:
    """Return the text with lone surrogates replaced, which no file could hold; pairs are joined.

    >>> encodable("half \ud83d") == "half \ufffd"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def verdict(scores: Mapping[str, Score]) -> bool | None:
    """Return whether an answer passed: every score that gives a verdict must pass.

    None where a score could not be made, or where none gives a verdict.
    """
    if any(score.value is None for score in scores.values()):
        return None
    verdicts = [score.passed for score in scores.values() if score.passed is not None]
    return all(verdicts) if verdicts else None


class Document(Struct, frozen=True):
    """A document of a corpus, from which a benchmark is built.

    Attributes:
        name: Within its source.
        text: Line ends are ``\\n``.
        about: What the source says of it (title, author).
        problem: Why it cannot be read; empty where it can.
    """

    name: str
    text: str
    about: Mapping[str, Any] = {}
    problem: str = ""
