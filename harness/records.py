"""The plain records used throughout the harness.

An `Instance` leads to a `Request`, this to a `Reply` (in a `Call`, which adds its id and times) and
this to `Score` records. An `Attempt` combines them in a line of ``attempts.jsonl``.

They are frozen, slotted and cheap, since a run creates hundreds of thousands of them, and their
methods only derive values from their own fields.
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
"""Finish reasons of refusals, which may have no text."""

D = TypeVar("D")


class Message(Struct, frozen=True):
    """One turn of a conversation."""

    role: Role
    content: str


ConstraintKind = Literal["json_schema", "regex", "choices", "grammar"]
"""Kinds of decoding constraints; also the names of backends' features."""


@dataclass(frozen=True, slots=True)
class DecodingConstraint:
    """A constraint on the whole answer; exactly one field is set. A grammar is EBNF or GBNF."""

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
        """The name of the field that is set."""
        return cast("ConstraintKind", next(iter(self.given())))

    def given(self) -> dict[str, Any]:
        """Return the field that is set, as a mapping from its name to its value."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items() if value not in (None, ())}


MOST_LOGPROBS = 20
"""Maximum number of tokens per position that can be requested (OpenAI's limit)."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding parameters; ``None`` leaves the provider's default.

    A dataclass, not a struct: Pydantic, which validates run files, reads dataclasses directly, so
    the fields are defined only once.

    Attributes:
        top_p: Probability mass for nucleus sampling.
        stop: Strings at which the answer ends.
        extra: Further fields of the provider's request body, sent unchanged (``reasoning_effort``,
            ``thinking``, …).
        constraint: ``task`` uses the task's own constraint for each instance.
        logprobs: Number of most likely tokens per position to request.
        prompt_logprobs: Whether to request the log-probabilities of the prompt's tokens.
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
    """An item of a task; ``data`` contains whatever the task needs to prompt and to score.

    Attributes:
        id: Unique within the task's data set.
        groups: From label to group; ``--limit`` is round-robin over the first label's groups.
        cluster: A statistical unit coarser than the prompt, if the data have one.
    """

    id: str
    data: D
    groups: Mapping[str, str] = {}
    cluster: str | None = None


class Criterion(Struct, frozen=True):
    """One condition on an answer; its group for the label ``category`` is its kind."""

    text: str
    groups: Mapping[str, str] = {}


class Origin(Struct, frozen=True):
    """The attempt that a request belongs to; samples count from 0, rounds from 1."""

    instance: str
    sample: int
    round: int


class Request(Struct, frozen=True):
    """A request to a backend.

    Attributes:
        seed: The provider's seed (not the run's); None if none is sent.
        sample: Number of the sample, from 0.
        redraw: How many times this answer was drawn before, if the user requests another
            (``--retry truncated``).
    """

    model: str
    messages: tuple[Message, ...]
    decoding: Decoding
    sample: int
    origin: Origin
    seed: int | None = None
    redraw: int = 0


class Question(Struct, frozen=True):
    """A question asked ``samples`` times, without a temperature or max_tokens if unsupported."""

    messages: tuple[Message, ...]
    decoding: Decoding
    samples: int = 1


class Usage(Struct, frozen=True):
    """A call's tokens, by the provider's count; output includes reasoning, and input cached."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class Allowance(Struct, frozen=True):
    """A rate limit as reported in an answer's headers; values that are not reported are None.

    ``limit`` is in units per minute, and ``reset_s`` the seconds until the limit is reset.
    """

    unit: Literal["requests", "tokens", "input_tokens", "output_tokens"]
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


class TokenLogprob(Struct, frozen=True, array_like=True):
    """A candidate token at a position, and its log-probability."""

    token: str
    logprob: float


Logprobs = tuple[tuple[TokenLogprob, ...], ...]
"""The most likely tokens at each of an answer's first positions, most likely first."""

MOST_POSITIONS = 20
"""Number of positions of an answer whose log-probabilities are kept."""

PromptLogprobs = tuple[TokenLogprob | None, ...]
"""The log-probability of each prompt token; None for tokens without one, such as the first."""


class Reply(Struct, frozen=True):
    """A provider's complete answer.

    Attributes:
        finish_reason: ``stop``, ``length``, ``content_filter``, ``refusal``, or the provider's own
            term for anything else.
        usage: None if the provider reported none.
        model: The model that answered, according to the provider.
        reasoning: The model's reasoning before its answer.
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
    """A reply with its call's id and times (seconds since the epoch); attempts may share a call."""

    id: str
    reply: Reply
    cached: bool
    started_at: float
    ended_at: float


class Score(Struct, frozen=True):
    """The result of a checker, validator or judge for one answer.

    The value is None if it could not be measured (never 0); `passed` is None without a verdict.
    """

    value: bool | float | None
    passed: bool | None = None
    reason: str = ""
    details: Mapping[str, Any] = {}


class Rewriting(Struct, frozen=True):
    """A second model's paraphrase of an instruction or feedback; ``used`` if it kept all values."""

    of: Literal["instruction", "feedback"]
    used: bool
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    error: str | None = None


class Attempt(Struct, frozen=True):
    """A line of ``attempts.jsonl``: a reply with its scores.

    It is identified by (instance, sample, round). ``request`` contains the parameters, the
    messages' hash, and either the messages (round 1) or ``follows``, the round that they continue.
    Times are in seconds since the epoch.

    Attributes:
        cluster: Hash of the round-1 messages without shots, or the instance's own cluster.
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
    """Return the hash of a value's canonical JSON, as 32 hex digits."""
    return hashlib.blake2b(_canonical.encode(value), digest_size=16).hexdigest()


def messages_hash(messages: Sequence[Message]) -> str:
    """Return the hash of a conversation, as 32 hex digits; it identifies the prompt."""
    return content_hash(messages)


def encodable(text: str) -> str:
    """Return a text with lone surrogates (not encodable) as U+FFFD, and surrogate pairs joined.

    >>> encodable("half \\ud83d") == "half \\ufffd"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def verdict(scores: Mapping[str, Score]) -> bool | None:
    """Return whether all verdicts are passes; None if a value is missing, or all verdicts are."""
    if any(score.value is None for score in scores.values()):
        return None
    verdicts = [score.passed for score in scores.values() if score.passed is not None]
    return all(verdicts) if verdicts else None


class Document(Struct, frozen=True):
    """A document of a corpus, with ``\\n`` as line ends.

    ``about`` is the source's metadata (title, author); ``problem`` is why it is unreadable, or "".
    """

    name: str
    text: str
    about: Mapping[str, Any] = {}
    problem: str = ""
