"""The unfinished work of a run: its instances, and the next missing round of each sample.

A sample is *unfinished* if it has no answer yet, its call failed, its last round needs a further
round, or the user asked to retry its outcome.
"""

from __future__ import annotations

import hashlib
import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import convert, structs

from harness.calls.keys import provider_seed
from harness.config.run_file import RunFile, Shard
from harness.config.sections import MAX_COUNT, MAX_ROUNDS
from harness.engine.assessment import FINAL_OUTCOMES, UNANSWERED
from harness.engine.progress import NO_VERDICTS, Verdicts
from harness.engine.turns import max_turns, user_role
from harness.errors import ConfigError
from harness.ports import OWN_DRAWS, Task
from harness.records import (
    OUTCOMES,
    Attempt,
    Decoding,
    Instance,
    Message,
    Origin,
    Request,
    messages_hash,
)

if TYPE_CHECKING:
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

MAX_CACHED_INSTANCES = 20_000  # data sets of up to this many instances are kept in memory once read


class CachedInstances:
    """A task's instances, which stay in memory after the first iteration if there are few.

    Args:
        task: The task.
        max_cached: The maximum number of instances to keep. An iteration raises ConfigError if one
            of that many first instances has an invalid id or group.
    """

    def __init__(self, task: Task[Any], max_cached: int = MAX_CACHED_INSTANCES) -> None:
        self.task = task
        self._max_cached = max_cached
        self._instances: list[Instance[Any]] | None = None

    def __iter__(self) -> Iterator[Instance[Any]]:
        return self._read() if self._instances is None else iter(self._instances)

    def release(self) -> None:
        """Free the memory. The next iteration reads the instances again."""
        self._instances = None

    def _read(self) -> Iterator[Instance[Any]]:
        instances: list[Instance[Any]] | None = []
        ids = set[str]()
        for instance in self.task.instances():
            if instances is not None:
                _check_instance(instance, ids)
                instances.append(instance)
                if len(instances) > self._max_cached:
                    instances = None
            yield instance
        self._instances = instances


def _check_instance(instance: Instance[Any], ids: set[str]) -> None:
    """Raise ConfigError if an id or group is invalid or among ``ids``, to which the id is added."""
    problem = ""
    labels = (*instance.groups, *instance.groups.values())
    if not isinstance(instance.id, str):
        problem = "has an id that is not text"
    elif instance.id in ids:
        problem = "occurs twice"
    elif not all(isinstance(label, str) for label in labels):
        problem = f"has a group that is not text: {instance.groups!r:.80}"
    if problem:
        remedy = "Correct the task, then check it (harness docs plugins)."
        raise ConfigError(f"The task's instance {instance.id!r} {problem}.", remedy)
    ids.add(instance.id)


class LimitedInstances:
    """The instances of a run with a limit, in a seeded order, round-robin over their groups.

    The first N instances of a file often belong to one group. A larger limit only adds instances.
    """

    def __init__(
        self, instances: Iterable[Instance[Any]], limit: int, seed: int | None = None
    ) -> None:
        self._instances = instances
        self._limit = limit
        self._seed = seed
        self._chosen: list[Instance[Any]] | None = None

    def __iter__(self) -> Iterator[Instance[Any]]:
        if self._chosen is None:
            self._chosen = self._choose()
        return iter(self._chosen)

    def _choose(self) -> list[Instance[Any]]:
        # One heap per group, largest rank on top, so that a smaller rank replaces it.
        groups: dict[str, list[tuple[int, str]]] = {}
        for instance in self._instances:
            heap = groups.setdefault(next(iter(instance.groups.values()), ""), [])
            seeded_id = f"{self._seed}/{instance.id}".encode()
            rank = int.from_bytes(hashlib.blake2b(seeded_id, digest_size=8).digest())
            if len(heap) < self._limit:
                heapq.heappush(heap, (-rank, instance.id))
            else:
                heapq.heappushpop(heap, (-rank, instance.id))
        heaps = [sorted(groups[group], reverse=True) for group in sorted(groups)]
        ranked = filter(None, chain.from_iterable(zip_longest(*heaps)))
        positions = {
            instance_id: position
            for position, (_, instance_id) in enumerate(islice(ranked, self._limit))
        }
        chosen = [instance for instance in self._instances if instance.id in positions]
        return sorted(chosen, key=lambda instance: positions[instance.id])


class ShardInstances:
    """The instances of one shard. Instances with the same prompt share calls, and so a shard."""

    def __init__(self, instances: Iterable[Instance[Any]], task: Task[Any], shard: Shard) -> None:
        self._instances = instances
        self._task = task
        self._shard = shard
        self._ids: set[str] | None = None

    def __iter__(self) -> Iterator[Instance[Any]]:
        if self._ids is None:
            self._ids = {instance.id for instance in self._instances if self._is_in_shard(instance)}
        return (instance for instance in self._instances if instance.id in self._ids)

    def _is_in_shard(self, instance: Instance[Any]) -> bool:
        prompt = prompt_hash(self._task, instance)
        return int(prompt, 16) % self._shard.n_shards == self._shard.number - 1


def prompt_hash(task: Task[Any], instance: Instance[Any]) -> str:
    """Return the hash of an instance's prompt without shots: its default cluster."""
    return messages_hash(task.messages(instance, ()))


def run_instances(run: RunFile, data: CachedInstances) -> Iterable[Instance[Any]]:
    """Return a run's instances in order of sampling.

    With a limit or a budget, that is round-robin over the groups.
    """
    limit = run.limit
    if limit is None and run.budget.usd is not None:
        limit = MAX_COUNT
    instances: Iterable[Instance[Any]] = data
    if limit is not None:
        instances = LimitedInstances(data, limit, run.seed)
    return (
        instances
        if run.parsed_shard is None
        else ShardInstances(instances, data.task, run.parsed_shard)
    )


class UnfinishedSample(NamedTuple):
    """An unfinished sample and its first missing round."""

    instance: Instance[Any]
    sample: int
    round: int
    redraw: int = 0  # number of earlier answers to that round, which are not reused
    turns: int = 1  # maximum turns of the user; if there are several, the rounds are these turns
    is_replaced: bool = False  # whether a later answer to the round is recorded, and this one lost


class Opening(NamedTuple):
    """The messages of an instance's round 1, and its statistical cluster."""

    messages: tuple[Message, ...]
    cluster: str


class Work(NamedTuple):
    """The amount of work in a run, in samples."""

    total: int
    unfinished: int  # and the judgements that earlier sessions have not made
    beyond_limit: int = 0  # unfinished, but beyond the session's limit of instances

    @property
    def finished(self) -> int:
        """The number of samples finished earlier, minus the judgements still missing."""
        return self.total - self.unfinished - self.beyond_limit


class FewShotPrompts(ABC):
    """The prompts of a few-shot run, which a plug-in builds from the section ``task.shots``."""

    lacking = 0  # instances with fewer examples than requested, once `check` has run

    @abstractmethod
    def messages(self, instance: Instance[Any]) -> tuple[Message, ...]:
        """Return the messages of an instance's round 1, with its examples."""

    @abstractmethod
    def check(self, instances: Iterable[Instance[Any]]) -> None:
        """Raise ConfigError if the prompts of the instances cannot be built."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of all that the prompts depend on, except the run file."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a run: its unfinished samples, with their prompts and requests."""

    task: Task[Any]
    run: RunFile
    instances: Iterable[Instance[Any]]  # iterated several times
    index: AttemptIndex | None  # existing attempts with their verdicts; None for a new run
    features: Collection[str] = frozenset({"seed", "conversation"})
    retried: Collection[str] = frozenset({"error"})  # outcomes and finish reasons
    shots: FewShotPrompts | None = None
    retried_rows: Collection[int] = field(init=False)  # attempts with a finish reason to retry

    def __post_init__(self) -> None:
        reasons = set(self.retried).difference(OUTCOMES)
        rows = self.index.rows_with_finish_reason(reasons) if self.index else ()
        object.__setattr__(self, "retried_rows", rows)

    def opening(self, instance: Instance[Any]) -> Opening:
        """Return the messages of an instance's round 1, and its cluster.

        By default the cluster is the hash of the prompt without shots, so that zero-shot and
        few-shot runs can be paired.
        """
        messages = self.task.messages(instance, ())
        cluster = instance.cluster or messages_hash(messages)
        if self.shots is not None:
            messages = self.shots.messages(instance)
        return Opening(messages, cluster)

    def unfinished(self) -> Iterator[UnfinishedSample]:
        """Yield the unfinished samples lazily, instance by instance."""
        for instance in self.instances:
            turns = self.turns(instance)
            for sample in range(self.run.samples):
                round_ = self._missing_round(instance.id, sample, turns)
                if round_ is not None:
                    redraw = (
                        self.index.count_answers(instance.id, sample, round_) if self.index else 0
                    )
                    yield UnfinishedSample(instance, sample, round_, redraw, turns)

    def lost_draws(self) -> Iterator[UnfinishedSample]:
        """Yield the samples of answers that a later one has replaced and whose lines are lost."""
        if self.index is None:
            return
        for instance in self.instances:
            turns = self.turns(instance)
            for sample in range(self.run.samples):
                for round_, redraw in self.index.lost_draws(instance.id, sample):
                    yield UnfinishedSample(
                        instance, sample, round_, redraw, turns, is_replaced=True
                    )

    def first_answered_request(self) -> Request | None:
        """Return a round-1 request that was answered in an earlier session, or None."""
        if self.index is None:
            return None
        table = self.index.attempts
        rows = (table.has_reply & (table.round == 1)).nonzero()[0]
        for attempt in self.index.read(Attempt, rows[-1:], judged=False):
            record = attempt.request
            return Request(
                self.run.model.name,
                convert(record["messages"], tuple[Message, ...]),
                convert(record["decoding"], Decoding),
                attempt.sample,
                Origin(attempt.instance, attempt.sample, 1),
                loglikelihoods=record.get("loglikelihoods", False),
                window=record.get("window", 0),
            )
        return None

    def verdicts(self, unfinished: UnfinishedSample) -> Verdicts:
        """Return the recorded verdicts on a sample's first and latest rounds so far."""
        index = self.index
        if index is None or not (
            rows := index.find_rows(unfinished.instance.id, unfinished.sample)
        ):
            return NO_VERDICTS
        passed = index.attempts.passed
        return Verdicts(_verdict(passed[rows[0]]), _verdict(passed[rows[-1]]))

    def turn_verdicts(self, unfinished: UnfinishedSample) -> list[bool | None]:
        """Return the recorded verdicts on a conversation's turns so far (None: missing).

        Turns that were judged without a verdict are omitted.
        """
        if self.index is None or (table := self.index.attempts.turns) is None:
            return []
        rows = self.index.find_rows(unfinished.instance.id, unfinished.sample)[
            : unfinished.round - 1
        ]
        neutral = self.index.neutral
        return [_verdict(table.passed[row]) for row in rows if not neutral[row]]

    def count_samples(self) -> tuple[int, int]:
        """Count the run's samples. Return the total, and the number of unfinished samples."""
        total = unfinished = 0
        for instance in self.instances:
            turns = self.turns(instance)
            for sample in range(self.run.samples):
                total += 1
                unfinished += self._missing_round(instance.id, sample, turns) is not None
        return total, unfinished

    def turns(self, instance: Instance[Any]) -> int:
        """Return the maximum number of the user's turns in an instance.

        Raises:
            ConfigError: If there are too many, or the run cannot have conversations.
        """
        turns = max_turns(self.task, instance)
        if turns > MAX_ROUNDS:
            problem = f"{instance.id!r:.60} has {turns:,} turns."
            raise ConfigError(problem, f"Give it at most {MAX_ROUNDS:,}.")
        if turns > 1:
            self._check_conversation(instance)
        return turns

    def _check_conversation(self, instance: Instance[Any]) -> None:
        """Raise ConfigError if the run file, or its backend, does not suit a conversation."""
        run = self.run
        conversation = f"{instance.id!r:.60} is a conversation of several turns"
        if run.user is None and user_role(self.task, instance) is not None:
            problem = f"{instance.id!r:.60} has a user that a model plays, and there is no model."
            raise ConfigError(problem, "Add user: {model: …} to the run file (harness docs jsonl).")
        if run.rounds.max > 1:
            problem = f"{conversation}, and rounds.max asks for feedback: they cannot be combined."
            raise ConfigError(problem, "Set rounds.max to 1, or give each row one turn.")
        if run.task.shots.n:
            raise ConfigError(f"{conversation}, which takes no shots.", "Remove task.shots.")
        run.check_no_tools(conversation)
        if run.polish is not None:
            raise ConfigError(f"{conversation}, which is not paraphrased.", "Remove polish.")
        if "conversation" not in self.features:
            backend = run.model.backend
            problem = f"{conversation}, but the backend {backend!r} accepts a single prompt."
            raise ConfigError(problem, "Use a backend with a chat API (harness docs providers).")

    def has_following(self, restored: UnfinishedSample, round_: int, digest: str) -> bool:
        """Return whether an answer in a later round that follows a restored one is recorded.

        It follows if its prompt is the same, and the restored round has no other recorded answer.

        Args:
            restored: The sample and round of the restored answer.
            round_: The later round.
            digest: Hash of the later round's messages after the restored answer.
        """
        if self.index is None or round_ == restored.round:
            return False
        attempts = self.index.read_rounds(restored.instance.id, restored.sample, round_ + 1)
        hashes = {attempt.round: attempt.request.get("messages_hash") for attempt in attempts}
        return restored.round not in hashes and hashes.get(round_) == digest

    def _missing_round(self, instance: str, sample: int, turns: int) -> int | None:
        rounds = self.run.rounds
        if self.index is None:
            return 1
        return self.index.next_round(
            instance,
            sample,
            rounds=max(turns, rounds.max),
            stop_on_pass=rounds.stop_on_pass and turns == 1,
            retried=self.retried,
            retried_rows=self.retried_rows,
            final=FINAL_OUTCOMES | UNANSWERED if turns > 1 else FINAL_OUTCOMES,
        )

    def request(
        self,
        unfinished: UnfinishedSample,
        round_: int,
        messages: tuple[Message, ...],
        digest: str,
    ) -> Request:
        """Build a sample's request for a round.

        Args:
            unfinished: The sample, with the instance of the round's turn.
            round_: The round.
            messages: The messages to send.
            digest: Their hash.
        """
        instance = unfinished.instance
        # Later rounds follow a different answer anyway.
        redraw = unfinished.redraw if round_ == unfinished.round else 0
        decoding = self.run.decoding
        if decoding.constraint == "task":
            decoding = replace(decoding, constraint=self.task.constraint(instance))
        seed = None
        unsent_seed = self.run.seed
        if unsent_seed is not None and "seed" in self.features:
            # Greedy answers to a prompt are the same whatever the seed, so they share a call.
            is_drawn = OWN_DRAWS in self.features and decoding.temperature != 0
            draw_id = instance.id if is_drawn else None
            seed = provider_seed(unsent_seed, digest, unfinished.sample, redraw, draw_id)
            unsent_seed = None
        turns = unfinished.turns if unfinished.turns > 1 else 0
        request = Request(
            self.run.model.name,
            messages,
            decoding,
            unfinished.sample,
            Origin(instance.id, unfinished.sample, round_, turns),
            seed,
            redraw,
            unsent_seed=unsent_seed,
        )
        adapted = self.task.adapted_request(instance, request)
        return request if adapted is request else self._without_unsupported(adapted)

    def _without_unsupported(self, request: Request) -> Request:
        """Remove decoding parameters that the backend does not support from a request."""
        removed: dict[str, Any] = {}
        for name in ("temperature", "top_p", "max_tokens", "stop"):
            if name not in self.features:
                removed[name] = () if name == "stop" else None
        if not removed:
            return request
        return structs.replace(request, decoding=replace(request.decoding, **removed))


def _verdict(passed: int) -> bool | None:
    """Return a recorded verdict, which is a number below 0 if there is none."""
    return None if passed < 0 else bool(passed)


class CachedDraws:
    """Yields the samples whose replies are restored from the cache, in the order of their draws.

    A run is restored after it has lost lines, if sessions with ``--retry`` have drawn answers
    again: the replies to all draws are in the cache. All are restored, so that the newest counts
    and the next retry draws a new one. Replies that the cache lacks are requested only afterwards,
    because a round after an answer that was drawn again may never have been requested.

    Args:
        read: Returns the run's plan with its present attempts.
        retried: The outcomes and finish reasons that any session has retried.
        repeated: The number of answers that replaced another one, None if it is unknown.
    """

    def __init__(
        self, read: Callable[[], RunPlan], retried: frozenset[str], repeated: int | None
    ) -> None:
        self._read = read
        self._retried = retried
        self._repeated = repeated
        self._seen = set[tuple[str, int, int, int]]()
        self.plan = read()

    def next_samples(self) -> Iterator[UnfinishedSample]:
        """Yield the samples that lack an answer or may have a later draw, each draw once."""
        self.plan = self._with_retries_of_all_sessions(self._read())
        for unfinished in chain(self.plan.unfinished(), self.plan.lost_draws()):
            draw = (unfinished.instance.id, unfinished.sample, unfinished.round, unfinished.redraw)
            if draw not in self._seen:
                self._seen.add(draw)
                yield unfinished

    def has_missing(self) -> bool:
        """Return whether fewer answers have been drawn again than earlier sessions recorded.

        Without a record, return whether any answer that they retried has been drawn only once.
        """
        plan = self._read()
        if self._repeated is not None:
            return plan.index is None or plan.index.n_repeated < self._repeated
        unfinished = {(sample.instance.id, sample.sample) for sample in plan.unfinished()}
        for sample in self._with_retries_of_all_sessions(plan).unfinished():
            if sample.redraw == 1 and (sample.instance.id, sample.sample) not in unfinished:
                return True
        return False

    def _with_retries_of_all_sessions(self, plan: RunPlan) -> RunPlan:
        """Replace the outcomes that a plan retries by those that any session has retried."""
        return replace(plan, retried=self._retried)
