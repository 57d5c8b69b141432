"""Optional members of tasks: how prompts are sent, score names, and metrics over all answers."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from harness.records import Instance, Request

D = TypeVar("D")


@runtime_checkable
class Requesting(Protocol[D]):
    """A task that says how its prompts are sent, for example where answers stop."""

    @property
    def needed_features(self) -> frozenset[str]:
        """Names of the backend features that the task needs."""

    @property
    def needed_samples(self) -> int:
        """The minimum number of samples per instance, 1 for most tasks."""

    def adapted_request(self, instance: Instance[D], request: Request) -> Request:
        """Return the request for an instance's answer, given the request of the run file.

        Must be a pure function. Values set by the run file should not be replaced. Parameters that
        the backend does not accept are removed afterwards.
        """


@runtime_checkable
class NamesScores(Protocol[D]):
    """A task that can name its scores, so that bounds are checked before any call."""

    def score_names(self, instance: Instance[D]) -> Collection[str]:
        """Return the names of all scores that an answer to an instance may have."""


class GivenAnswer(NamedTuple):
    """An answer, with the id of its instance and the number of its sample."""

    instance: str
    sample: int  # from 0
    text: str
    turn: int = 1  # of the user, in a conversation
    scores: Mapping[str, float] = {}  # by the task, without missing values


Aggregates = Mapping[str, Mapping[str, float]]
"""Metrics that a task computes from all answers, by part of the benchmark and metric."""


@runtime_checkable
class Aggregating(Protocol):
    """A task with metrics that are not means over answers, such as a corpus's perplexity."""

    def aggregate_answers(self, answers: Iterable[GivenAnswer]) -> Aggregates:
        """Return metrics over all of a run's answers.

        ``answers`` has the answers of round 1, or to all turns of a conversation, by instance,
        sample and turn. Missing answers are omitted.
        """
