"""The plain records that are used throughout the harness.

Records are frozen, slotted and cheap, because a run creates hundreds of thousands of them. Their
methods only derive values from their own fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

SCHEMA_VERSION = 1  # ``v`` of a line in attempts.jsonl
CRASH_VERSION = 2  # ``v`` of a line with the outcome ``crashed``, which version 1 does not have
METRICS_VERSION = 1  # ``schema_version`` of metrics.json
SCORING_VERSION = 3  # of the rules for reading answers to users' rows; absent in manifests: 1

JsonObject = dict[str, Any]  # by name: any values that JSON can have
Role = Literal["system", "user", "assistant"]
Outcome = Literal["ok", "truncated", "refused", "empty", "unparseable", "crashed", "error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
OUTCOMES_WITHOUT_REPLY: tuple[Outcome, ...] = ("crashed", "error")  # the call itself failed
NO_ANSWER_IN_TIME = "no answer in time"  # the ``exception`` of a crash that is a time-out

# Finish reasons, ours and those of providers, which the cache and the attempts keep as received.
# Sources: the API references of OpenAI, Anthropic, Gemini, Mistral, DeepSeek and Zhipu.
COMPLETE = frozenset({"stop", "STOP", "end_turn", "stop_sequence", "eos", "eos_token", "COMPLETE"})
TRUNCATIONS = frozenset(
    {
        *("length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded"),
        *("pause_turn", "compaction"),  # the model would go on in another turn
    }
)
REFUSALS = frozenset({"refusal", "content_filter", "sensitive", "safety", "SAFETY"})
"""The text may be empty."""
INTERRUPTIONS = frozenset(
    {"error", "abort", "cancelled", "insufficient_system_resource", "network_error"}
)
"""The server has no answer: the call is retried."""
TOOL_CALLS = frozenset({"tool_calls", "tool_use", "function_call"})
"""Finish reasons of an answer that calls tools. Its text is JSON with the calls."""
CONSTRAINT_REFUSED = "constraint_refused"
"""The finish reason if the provider refused the decoding constraint; its message is the text."""
FINISH_REASONS = (
    COMPLETE | TRUNCATIONS | REFUSALS | INTERRUPTIONS | TOOL_CALLS | {CONSTRAINT_REFUSED}
)
"""All known finish reasons. With any other, an answer counts as complete, with a warning."""

D = TypeVar("D")


class Message(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One turn of a conversation."""

    role: Role
    content: str
    reasoning_state: str | None = None  # of the reply (`Reply.reasoning_state`)


ConstraintKind = Literal["json_schema", "regex", "choices", "grammar"]
"""The kinds of decoding constraint. A backend's features list those that it supports."""


@dataclass(frozen=True, slots=True)
class DecodingConstraint:
    """A constraint on the whole answer.

    Raises:
        ValueError: Unless exactly one field is set.
    """

    json_schema: dict[str, Any] | None = None  # JSON that is valid against this schema
    regex: str | None = None  # a text that matches as a whole
    choices: tuple[str, ...] = ()  # one of these texts
    grammar: str | None = None  # a text of this grammar, in the server's notation (EBNF or GBNF)

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    def __post_init__(self) -> None:
        if len(self.specified_fields()) != 1:
            raise ValueError("constraint is one of json_schema, regex, choices, grammar")

    @property
    def kind(self) -> ConstraintKind:
        """The name of the field that is set."""
        return cast("ConstraintKind", next(iter(self.specified_fields())))

    def specified_fields(self) -> dict[str, Any]:
        """Return the field that is set, as a mapping from its name to its value."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items() if value not in (None, ())}


MAX_LOGPROBS = 20  # tokens per position that can be requested (OpenAI's limit)


@dataclass(frozen=True)
class Decoding:
    """Decoding parameters. If a parameter is None or empty, the provider's default applies."""

    # A dataclass, not a struct: Pydantic, which validates run files, reads dataclasses directly.
    temperature: float | None = None  # 0: greedy
    max_tokens: int | None = None  # maximum length of an answer
    top_p: float | None = None  # probability mass for nucleus sampling
    stop: tuple[str, ...] = ()  # texts at which the answer ends
    extra: dict[str, Any] = field(default_factory=dict)  # more request fields, such as "thinking"
    constraint: DecodingConstraint | Literal["task"] | None = None  # with task, each instance's
    logprobs: int | None = None  # number (1 to 20) of likeliest tokens per position to request
    prompt_logprobs: bool | None = None  # whether to request the log-probabilities of the prompt

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    def __post_init__(self) -> None:
        if self.logprobs is not None and not 1 <= self.logprobs <= MAX_LOGPROBS:
            raise ValueError(f"logprobs must be 1 to {MAX_LOGPROBS}")

    def specified_fields(self) -> dict[str, Any]:
        """Return the fields that are set and not False, by name, with the constraint as a dict."""
        return self._specified_fields.copy()

    @cached_property
    def _specified_fields(self) -> dict[str, Any]:  # needed several times per call
        fields: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value or (value == 0 and value is not False):
                fields[name] = value
        if isinstance(self.constraint, DecodingConstraint):
            fields["constraint"] = self.constraint.specified_fields()
        return fields


class Instance(Struct, Generic[D], frozen=True):
    """An item of a task. ``data`` holds whatever the task needs for its prompt and scores."""

    id: str  # unique within the task's data set
    data: D
    groups: Mapping[str, str] = {}  # by label; --limit is round-robin over the first label's
    cluster: str | None = None  # a statistical unit coarser than the prompt, if there is one


class Criterion(Struct, frozen=True):
    """One condition that an answer must meet. Its ``groups`` may include a ``category``."""

    text: str
    groups: Mapping[str, str] = {}


class Origin(Struct, frozen=True, omit_defaults=True):
    """The attempt for which a request is made. Samples are numbered from 0, and rounds from 1."""

    instance: str
    sample: int
    round: int
    turns: int = 0  # maximum turns of the user in a conversation, whose rounds are turns


class PromptCut(NamedTuple):
    """The point in a prompt where the beginning that it shares with other prompts ends."""

    message_index: int  # of the message in which it lies, from 0
    character_offset: int  # in the message's content


class Request(Struct, frozen=True):
    """A request to a backend for an answer, or for log-likelihoods of given answers."""

    model: str
    messages: tuple[Message, ...]
    decoding: Decoding
    sample: int  # from 0
    origin: Origin
    seed: int | None = None  # the provider's, not the run's; None if none is sent
    redraw: int = 0  # how many times this answer was drawn before (--retry truncated)
    loglikelihoods: bool = False  # whether to return those of the assistant's messages
    window: int = 0  # if above 0, the one text is scored in windows of this many tokens
    others: tuple[int, ...] = ()  # further samples to draw with the same call
    unsent_seed: int | None = None  # the run's, if the provider accepts none: for the call's key

    @property
    def continuations(self) -> list[tuple[str, str]]:
        """The (context, text) pair of each assistant message.

        The context is the last message of another role before it, or "" if there is none.
        """
        pairs = []
        context = ""
        for message in self.messages:
            if message.role == "assistant":
                pairs.append((context, message.content))
            else:
                context = message.content
        return pairs

    @property
    def sent_messages(self) -> tuple[Message, ...]:
        """The messages sent. For log-likelihoods, each is a context followed by an answer."""
        if not self.loglikelihoods:
            return self.messages
        return tuple(Message("user", context + text) for context, text in self.continuations)


class Question(Struct, frozen=True):
    """A question to a judge's model. It is asked ``samples`` times."""

    messages: tuple[Message, ...]
    decoding: Decoding  # temperature and max_tokens are dropped if the backend lacks them
    samples: int = 1


class Usage(Struct, frozen=True):
    """Token counts of a call.

    ``input_tokens`` includes tokens that the provider read from its cache or wrote to it.
    ``output_tokens`` includes reasoning tokens.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(  # a loop over the fields takes 5 microseconds
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    def split(self, weights: Sequence[int]) -> list[Usage]:
        """Split the counts into one part per weight, which add up to the counts.

        Input tokens are split in proportion to the weights, and output tokens equally.
        """
        n = len(weights)
        bounds = list(accumulate(weights, initial=0))

        def by_weight(total: int) -> list[int]:
            ends = [total * bound // bounds[-1] for bound in bounds]
            return [end - start for start, end in pairwise(ends)]

        def equally(total: int) -> list[int]:
            return [total // n + (index < total % n) for index in range(n)]

        parts = map(
            Usage,
            by_weight(self.input_tokens),
            equally(self.output_tokens),
            by_weight(self.cached_input_tokens),
            equally(self.reasoning_tokens),
            by_weight(self.cache_write_tokens),
        )
        return list(parts)


class CallTotals(Struct, frozen=True, kw_only=True):
    """Totals of some of a run's calls: their number, tokens and cost."""

    n_calls: int = 0  # answered, superseded attempts' ones included; a shared call counts once
    n_cached_calls: int = 0  # part of n_calls; made by other runs, replies came from the cache
    n_crashed_calls: int = 0  # not part of n_calls; of the application; tokens and cost unknown
    usage: Usage | None = None  # of the calls whose usage is known; null if there are none
    n_calls_without_usage: int = 0
    cost_usd: float | None = None  # null if any call's cost is unknown
    known_cost_usd: float = 0.0
    paid_usd: float = 0.0  # part of known_cost_usd; the rest came from the cache
    computed_usd: float = 0.0  # part of known_cost_usd; priced after the calls, by their tokens
    n_calls_without_cost: int = 0


class Allowance(Struct, frozen=True):
    """A rate limit that a provider reports in an answer's headers. Unreported values are None."""

    unit: Literal["requests", "tokens", "input_tokens", "output_tokens"]
    limit: int | None = None  # per minute
    remaining: int | None = None
    reset_s: float | None = None  # seconds until the limit is reset


class TokenLogprob(Struct, frozen=True, array_like=True):
    """A possible token at a position, and its log-probability (natural logarithm)."""

    token: str
    logprob: float


Logprobs = tuple[tuple[TokenLogprob, ...], ...]
"""The most likely tokens at each of the first positions of an answer, the likeliest first."""

MAX_LOGPROB_POSITIONS = 20  # positions of an answer whose log-probabilities are kept

PromptLogprobs = tuple[TokenLogprob | None, ...]
"""The log-probability of each token of a prompt. None for tokens without one, such as the first."""


class Reply(Struct, frozen=True):
    """A provider's complete answer. Values that the provider did not report are None."""

    text: str
    finish_reason: str  # stop, length, content_filter, refusal, or else the provider's own term
    usage: Usage | None = None
    model: str | None = None  # the one that answered, according to the provider
    latency_s: float = 0.0  # seconds from sending the request to the whole reply
    reasoning: str | None = None  # of the model, before its answer
    logprobs: Logprobs | None = None
    prompt_logprobs: PromptLogprobs | None = None
    batch: bool = False  # whether a batch made it, at the price of batches
    # The answer as the provider returned it, in JSON, with encrypted or signed reasoning. It is
    # sent back in later rounds, so that the model can continue its reasoning.
    reasoning_state: str | None = None
    tier: str | None = None  # the service tier that answered; None for the standard one
    # The replies to the request's other samples, by their number. Their usage is in this reply's.
    others: Mapping[int, Reply] = {}
    # The price paid for it, in US dollars; None if unknown. Unset in replies of backends, except
    # where the provider states it, and in a cache of an earlier version.
    cost_usd: float | UnsetType | None = UNSET

    @property
    def is_answer(self) -> bool:
        """Whether the reply has text or is a refusal. Other replies may be due to an outage."""
        if self.finish_reason in INTERRUPTIONS:
            return False
        return bool(self.text.strip()) or self.finish_reason in REFUSALS

    @property
    def is_truncated(self) -> bool:
        """Whether the reply ends before the answer does."""
        return self.finish_reason in TRUNCATIONS | INTERRUPTIONS


class Call(Struct, frozen=True):
    """A reply, with its call's id (which attempts may share) and Unix times in seconds."""

    id: str
    reply: Reply
    cached: bool  # whether the reply comes from the cache
    started_at: float
    ended_at: float


MAX_MAGNITUDE = (
    1e100  # maximum absolute score or cost: the sum of a million squares must not overflow
)
Time = Annotated[float, msgspec.Meta(ge=0, le=253_402_128_000)]
"""Epoch seconds, until the end of the year 9999, which is the last year of `datetime`."""
SPLIT_KEY = "split"
"""Key of a panel's score details: its judges disagree, and their mean just reaches the mark."""
WARNING_KEY = "warning"
"""Key of a score's details: why the value may be wrong, which the run reports."""


class Score(Struct, frozen=True):
    """A score of an answer, from a task, checker, validator or judge.

    `harness.engine.assessment` defines which scores can be recorded. A number that is a share,
    such as the part of the criteria that are met, says so: its interval is then within 0 and 1, and
    tables may show it in per cent. Any other number, such as a count or a rating, has no limits.
    """

    value: bool | float | None  # None, and not 0, if it could not be measured
    passed: bool | None = None  # None if there is no verdict
    reason: str = ""  # why it did not pass
    details: Mapping[str, Any] = {}  # JSON values of any form
    # Whether the value is from 0 to 1 by definition; of a number only. Unset in earlier versions.
    share: bool | UnsetType = UNSET


class ObservedRun(Struct, frozen=True):
    """The facts about a run that observers receive when one of its sessions begins."""

    id: str
    name: str
    task: str
    backend: str
    model: str
    endpoint: str  # the address that requests are sent to; empty if there is none
    simulated: bool
    version: str  # of the harness
    config: Mapping[str, Any]  # the run file, with defaults filled in


class Rewriting(Struct, frozen=True):
    """The record of a paraphrase. It is ``used`` only if it keeps all required strings."""

    of: Literal["instruction", "feedback"]
    used: bool
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    error: str | None = None


class UserRole(Struct, frozen=True):
    """The user whom a model plays in a conversation."""

    goal: Annotated[str, msgspec.Meta(min_length=1)]
    persona: str = ""
    max_turns: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10  # of the user, including the first


class PlayedTurn(Struct, frozen=True, omit_defaults=True):
    """The record of a call in which a model plays the user of a conversation.

    If the user continues, the turn's text is the attempt's ``feedback``.
    """

    call_id: str
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    ends: str | None = None  # the reply that ends the conversation, which is not sent


class Attempt(Struct, frozen=True):
    """A line of ``attempts.jsonl``: a reply with its scores, or a failed call.

    The instance, sample and round identify an attempt. In the file, ``passed`` is the verdict of
    rules alone, because judgements are in another file. In tables, reports and Python, deciding
    judges count as well.
    """

    v: int  # the version of this form
    instance: str  # its id
    sample: int  # from 0
    round: int  # from 1
    groups: Mapping[str, str]  # the instance's, by label
    cluster: str  # hash of the round-1 messages without shots, or the instance's own cluster
    request: Mapping[str, Any]  # parameters, messages_hash, messages (round 1) or ``follows``
    outcome: Outcome
    started_at: float  # seconds since the epoch
    ended_at: float
    text: str | None = None  # the answer
    reasoning: str | None = None  # of the model, before its answer
    finish_reason: str | None = None  # as in a reply
    passed: bool | None = None  # None if there is no verdict, as after a failed call
    scores: Mapping[str, Score] = {}  # by name
    feedback: str | None = None  # for the next round
    call_id: str | None = None  # attempts that share a call share its id
    usage: Usage | None = None
    cost_usd: float | None = None  # None if the price is unknown
    latency_s: float | None = None  # of an application's crash: until the exception or time-out
    cached: bool = False  # whether the reply comes from the cache
    error: str | None = None  # why the call or the scoring failed
    polish: tuple[Rewriting, ...] = ()  # of the instruction (round 1) and of the feedback
    # Left out of the line if unset:
    # Turns of the user in a conversation, whose rounds are turns. If a model plays the user, these
    # are the turns so far, including the next one.
    turns: int | UnsetType = UNSET
    user: tuple[PlayedTurn, ...] | UnsetType = UNSET  # what the played user says next
    reasoning_state: str | UnsetType = UNSET  # of the reply, in a run with several rounds
    answered_by: str | UnsetType = UNSET  # the model, if the provider names another one
    without_logprobs: bool | UnsetType = UNSET  # whether requested log-probabilities are missing
    partial: str | UnsetType = UNSET  # of a failed call: the part of the answer that arrived
    exception: str | UnsetType = UNSET  # in a backend's code: "KeyError at app.py:12"

    def __repr__(self) -> str:
        """Return a short description: full values would fill pages in a list."""
        text = self.text or self.error or ""
        beginning = repr(text[:60]) + "…" * (len(text) > 60)
        verdict = {True: "passed", False: "failed", None: "no verdict"}[self.passed]
        key = f"{self.instance!r}, sample={self.sample}, round={self.round}"
        return f"Attempt({key}, {self.outcome}, {verdict}, {beginning})"


EXAMPLE_SEPARATOR = ", such as: "  # separates an exception from the error of one of its calls


def add_example_error(exception: str, error: str) -> str:
    """Append an error to the description of an exception, as an example of its occurrences."""
    return f"{exception}{EXAMPLE_SEPARATOR}{error}" if exception else error


_canonical = msgspec.json.Encoder(order="deterministic")


def content_hash(value: Any) -> str:
    """Return the hash of a value's canonical JSON (32 hex digits)."""
    return hashlib.blake2b(_canonical.encode(value), digest_size=16).hexdigest()


def messages_hash(messages: Sequence[Message]) -> str:
    """Return the hash of a conversation (32 hex digits), which identifies the prompt."""
    return content_hash(messages)


def extend_conversation(
    messages: tuple[Message, ...], answer: str, turn: str, state: str | None = None
) -> tuple[Message, ...]:
    """Append an answer, unless it is blank, and the user's next turn to a conversation.

    Args:
        messages: The conversation so far.
        answer: The model's answer.
        turn: The user's next message.
        state: The answer's `Reply.reasoning_state`.
    """
    if answer.strip():
        messages = (*messages, Message("assistant", answer, state))
    return (*messages, Message("user", turn))


def budget_account(run_id: str) -> str:
    """Return the account to which a run's payments are booked: its id up to the first dot.

    Runs of the same name share an account, so that deleting a run's folder does not reset its
    budget.

    >>> budget_account("0c7e3f2a.b1d4")
    '0c7e3f2a'
    """
    return run_id.partition(".")[0]


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD.

    >>> replace_surrogates("half \\ud83d") == "half \\ufffd"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_JSON_TYPES = frozenset({bool, int, float, str, dict, list, type(None)})


def unwrap_array(value: Any) -> Any:
    """Convert an array to a list, and a scalar of NumPy or a similar library to Python's.

    The items of the list may still be such scalars. Any other value is returned unchanged.
    """
    # NumPy is recognised without importing it, which takes time.
    if type(value) in _JSON_TYPES or not hasattr(type(value), "tolist"):
        return value
    # Not `tolist` for an array: it turns some times into numbers.
    return list(value) if getattr(value, "ndim", 0) else value.tolist()


def nesting_depth(value: Any) -> int:
    """Return the number of levels of nested mappings and lists in a value of JSON's types."""
    depth = 0
    level = [value]
    while containers := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = []
        for container in containers:
            level += container.values() if isinstance(container, dict) else container
    return depth


def verdict(scores: Mapping[str, Score]) -> bool | None:
    """Return whether an answer with these scores passes.

    It fails if any score fails. Otherwise, the result is None if no score has a verdict or if a
    score has no value.
    """
    verdicts = [score.passed for score in scores.values() if score.passed is not None]
    if False in verdicts:
        return False
    if any(score.value is None for score in scores.values()):
        return None
    return True if verdicts else None


def first_reason(scores: Mapping[str, Score]) -> str:
    """Return "NAME: REASON" of the first score that did not pass and gives a reason, or ""."""
    for name, score in scores.items():
        if score.reason and not score.passed:
            return f"{name}: {score.reason}"
    return ""


class Document(Struct, frozen=True):
    """A document of a corpus, with ``\\n`` as line ends."""

    name: str
    text: str
    about: Mapping[str, Any] = {}  # the source's metadata: title, author, …
    problem: str = ""  # why it is unreadable; empty if it is not
