"""The plain records that travel through the harness.

Frozen, slotted and cheap: a run makes hundreds of thousands of them. They have no behaviour beyond
what follows from their own fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

SCHEMA_VERSION = 1
"""Version of a line in ``attempts.jsonl`` (its ``v``)."""
METRICS_VERSION = 1
"""Version of ``metrics.json`` (its ``schema_version``)."""

Role = Literal["system", "user", "assistant"]
Outcome = Literal["ok", "truncated", "refused", "empty", "unparseable", "error"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "truncated", "refused", "empty", "unparseable", "error")

REFUSALS = frozenset({"refusal", "content_filter"})
"""Finish reasons of a refusal, which may have no text however often it is requested."""

D = TypeVar("D")


class Message(Struct, frozen=True):
    """One turn of a conversation."""

    role: Role
    content: str


ConstraintKind = Literal["json_schema", "regex", "choices", "grammar"]
"""How decoding can be constrained; also the name of a backend's feature."""


@dataclass(frozen=True, slots=True)
class DecodingConstraint:
    """A constraint on a whole answer; exactly one field is set. A grammar is EBNF or GBNF."""

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
        """The field that is set."""
        return cast("ConstraintKind", next(iter(self.given())))

    def given(self) -> dict[str, Any]:
        """Return the field that is set, by its kind."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items() if value not in (None, ())}


MOST_LOGPROBS = 20
"""Most tokens per position that can be requested, which is also OpenAI's bound."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding parameters; ``None`` leaves the provider's default.

    A dataclass, not a struct, because run files are validated by pydantic, which reads dataclasses
    directly: the fields are written down once.

    Attributes:
        top_p: Nucleus sampling mass.
        stop: Strings at which the answer ends.
        extra: Further fields of the provider's request body, sent unchanged (``reasoning_effort``,
            ``thinking``, …).
        constraint: ``task`` uses the task's constraint of each instance.
        logprobs: How many of the likeliest tokens of each position to request.
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
        unset: tuple[Any, ...] = (None, (), {})
        return {
            name: value
            for name, value in fields.items()
            if value not in unset and value is not False
        }


class Instance(Struct, Generic[D], frozen=True):
    """One task item; its data are whatever the task needs to prompt and to score.

    Attributes:
        id: Unique within the task's data set.
        groups: Labels for breakdowns, coarse first; the first one steers ``--limit``.
        cluster: Coarser statistical unit than the prompt, if the data has one.
    """

    id: str
    data: D
    groups: Mapping[str, str] = {}
    cluster: str | None = None


class Criterion(Struct, frozen=True):
    """One condition that an answer has to satisfy; its group ``category`` names its kind."""

    text: str
    groups: Mapping[str, str] = {}


class Origin(Struct, frozen=True):
    """Which attempt a request is for (samples from 0, rounds from 1): not part of the cache key."""

    instance: str
    sample: int
    round: int


class Request(Struct, frozen=True):
    """A request to a backend.

    Attributes:
        seed: The provider's seed (not the run's); None if none is sent.
        sample: Index of the independent answer, from 0.
        redraw: How often this answer was drawn before, if the user wants another one
            (``--retry truncated``); 0 for the first.
    """

    model: str
    messages: tuple[Message, ...]
    decoding: Decoding
    sample: int
    origin: Origin
    seed: int | None = None
    redraw: int = 0


class Question(Struct, frozen=True):
    """What a judge asks; a backend that takes no temperature or max_tokens gets none."""

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
        return Usage(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class Allowance(Struct, frozen=True):
    """What a provider says about one of its rate limits, in an answer's headers.

    The limit is in units per minute; what is not stated is None.
    """

    unit: Literal["requests", "tokens", "input_tokens", "output_tokens"]
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


class TokenLogprob(Struct, frozen=True, array_like=True):
    """A token that a model could have written at a position, and its log-probability."""

    token: str
    logprob: float


Logprobs = tuple[tuple[TokenLogprob, ...], ...]
"""The likeliest tokens of each of an answer's first positions, most likely first."""

MOST_POSITIONS = 20
"""Positions of an answer whose log-probabilities are kept."""

PromptLogprobs = tuple[TokenLogprob | None, ...]
"""The log-probability of each token of a prompt; None for those without one, such as the first."""


class Reply(Struct, frozen=True):
    """A provider's complete answer.

    Attributes:
        finish_reason: ``stop``, ``length``, ``content_filter``, ``refusal``, or the provider's own
            word for anything else.
        usage: None if the provider did not count.
        model: The model that the provider says has answered.
        reasoning: What a reasoning model thought before its answer.
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
    """A reply and its paid call; attempts that share a call share its id, the cache key."""

    id: str
    reply: Reply
    cached: bool
    started_at: float
    ended_at: float


class Score(Struct, frozen=True):
    """What a checker, validator or judge says about one answer.

    The value is None if it could not be measured (never 0), `passed` if there is no verdict.
    """

    value: bool | float | None
    passed: bool | None = None
    reason: str = ""
    details: Mapping[str, Any] = {}


class Rewriting(Struct, frozen=True):
    """A second model's paraphrase of an instruction or feedback; used if it kept what it must."""

    of: Literal["instruction", "feedback"]
    used: bool
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    error: str | None = None


class Attempt(Struct, frozen=True):
    """One line of ``attempts.jsonl``: a reply with its scores.

    Identified by (instance, sample, round). ``request`` holds the messages and parameters in round
    1; later rounds hold the hash of the messages and ``follows``, the round whose line they
    continue. Times are seconds since the epoch.

    Attributes:
        cluster: Hash of the round-1 messages without shots, or the instance's coarser label.
        polish: The paraphrases of the instruction (round 1) and of the feedback.
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
    """Replace lone surrogates in a text, which no file could hold; pairs are joined.

    >>> encodable("half \ud83d") == "half \ufffd"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def verdict(scores: Mapping[str, Score]) -> bool | None:
    """Return whether all verdicts are passes; None if a value is missing, or none has a verdict."""
    if any(score.value is None for score in scores.values()):
        return None
    verdicts = [score.passed for score in scores.values() if score.passed is not None]
    return all(verdicts) if verdicts else None


class Document(Struct, frozen=True):
    """A document of a corpus; its line ends are ``\\n``.

    ``about`` is what the source says about it (title, author), ``problem`` why it cannot be read.
    """

    name: str
    text: str
    about: Mapping[str, Any] = {}
    problem: str = ""
