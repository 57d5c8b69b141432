"""What a run owes: a lazy stream of samples with their next round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from harness.calls.key import provider_seed
from harness.config.run_file import RunFile
from harness.config.sections import MOST
from harness.ports import Constraining, Task
from harness.records import Instance, Message, Origin, Outcome, Request, messages_hash
from harness.run.selection import limited
from harness.run.shots import Shots
from harness.store.index import AttemptIndex


class OwedSample(NamedTuple):
    """A sample of which at least one round is owed.

    round: the first owed one.
    redraw: how often that one was answered before.
    """

    instance: Instance[Any]
    sample: int
    round: int
    redraw: int = 0


class Opening(NamedTuple):
    """What round 1 sends, and the unit that statistics count the instance to.

    cluster: see `harness.records.Attempt`.
    """

    messages: tuple[Message, ...]
    cluster: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of a run, as a function of its task and run file.

    sends_seed: the backend takes a provider seed.
    retried: outcomes whose attempts are made again.
    shots: of a few-shot run, None for a zero-shot one.
    passed: whether a round has passed (instance, sample, round), where that is not for the
        rules alone to say; None where it is.
    own_draws: instances that share a prompt are sampled by seeds of their own.
    """

    task: Task[Any]
    run: RunFile
    sends_seed: bool = True
    retried: Collection[Outcome] = frozenset({"error"})
    shots: Shots | None = None
    passed: Callable[[str, int, int], bool] | None = None
    own_draws: bool = False

    def __post_init__(self) -> None:
        if self.run.task.shots.n and self.shots is None:
            raise ValueError("the run file asks for shots, and the plan has none")

    def opening(self, instance: Instance[Any]) -> Opening:
        """An instance's first messages.

        The cluster is that of the prompt without shots, so that zero-shot and few-shot
        runs pair, and instances that share a prompt stay one unit whatever they are shown.
        """
        bare = self.task.messages(instance, ())
        cluster = instance.cluster or messages_hash(bare)
        return Opening(self.shots.messages(instance) if self.shots else bare, cluster)

    def instances(self) -> Iterator[Instance[Any]]:
        """The run's instances in its order, anew at each call.

        Under a budget it goes round the groups too: what the money is enough for
        shall speak of all of them.
        """
        limit = self.run.limit
        if limit is None and self.run.budget.usd is not None:
            limit = MOST
        return limited(self.task.instances, limit, self.run.seed)

    def owed(self, ledger: AttemptIndex) -> Iterator[OwedSample]:
        """The unfinished samples, instance by instance."""
        for instance in self.instances():
            for sample in range(self.run.samples):
                number = self._owed_round(ledger, instance.id, sample)
                if number is not None:
                    redraw = ledger.answers(instance.id, sample, number)
                    yield OwedSample(instance, sample, number, redraw)

    def _owed_round(self, ledger: AttemptIndex, instance: str, sample: int) -> int | None:
        rounds, retried = self.run.rounds, self.retried
        if self.passed is None or not rounds.stop_on_pass:
            return ledger.next_round(
                instance,
                sample,
                rounds=rounds.max,
                stop_on_pass=rounds.stop_on_pass,
                retried=retried,
            )
        for number in range(1, rounds.max + 1):
            owed = ledger.next_round(
                instance, sample, rounds=number, stop_on_pass=False, retried=retried
            )
            if owed is not None:
                return owed
            if self.passed(instance, sample, number):
                return None
        return None

    def count(self, ledger: AttemptIndex) -> tuple[int, int]:
        """Samples of the whole run, and those of them that are unfinished."""
        instances = sum(1 for _ in self.instances())
        return instances * self.run.samples, sum(1 for _ in self.owed(ledger))

    def request(
        self,
        instance: Instance[Any],
        sample: int,
        number: int,
        messages: tuple[Message, ...],
        prompt: str,
        redraw: int = 0,
    ) -> Request:
        """The request of a round.

        number: the round, from 1.
        prompt: hash of the messages.
        redraw: how often it was answered before.
        """
        seed = self.run.seed if self.sends_seed else None
        decoding = self.run.decoding
        if decoding.constraint == "task":
            task = self.task
            assert isinstance(task, Constraining), "refused before any work"
            decoding = replace(decoding, constraint=task.constraint(instance))
        # Greedy answers to one prompt are the same, whatever the seed: they share a call.
        own = self.own_draws and decoding.temperature != 0
        return Request(
            model=self.run.model.name,
            messages=messages,
            decoding=decoding,
            sample=sample,
            origin=Origin(instance.id, sample, number),
            seed=None
            if seed is None
            else provider_seed(seed, prompt, sample, redraw, instance.id if own else None),
            redraw=redraw,
        )
