"""Scores recorded attempts again on other machines, which do not have the run's files.

Packages, and NLTK's English sentence parameters, are not sent, so they have to be the same there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from harness.backends._ray_tasks import packed, unpacked
from harness.config.run_file import RunFile
from harness.config.settings import Settings, set_variables
from harness.engine.rescoring import (
    Batch,
    Rescorer,
    ScoredBatch,
    decode_attempt,
    decode_judgement,
)
from harness.errors import ConfigError, DataInvalid
from harness.ports import Task
from harness.records import Attempt, Instance, Outcome
from harness.store.attempt_lines import ATTEMPT
from harness.store.index import AttemptIndex
from harness.store.json_lines import UNREADABLE, decoded_at
from harness.store.judgement_index import judgements_at
from harness.store.judgements import Judgement
from harness.store.manifest import package_versions
from harness.store.run_folder import JUDGEMENTS


class LineBatch(NamedTuple):
    """The instances of a batch, and the recorded lines of its attempts and judgements."""

    instances: Sequence[tuple[Instance[Any] | None, int]]
    attempts: Sequence[bytes]
    judgements: Sequence[Sequence[bytes | None]]


@dataclass(frozen=True)
class ClusterRescorer:
    """A `Rescorer` for the processes of a cluster.

    Attributes:
        run: The run file.
        attempts: The path of ``attempts.jsonl`` on the machine that reads the batches.
        judged: The outcomes that judges score.
        task: The pickled task.
        data_dir: The data folder, which need not exist on other machines.
        packages: The versions of packages, by name. They must be the same on other machines that
            have these packages.
        splitter: The name of the sentence splitter that the scores depend on, or "".
    """

    run: RunFile
    attempts: Path
    judged: Collection[Outcome]
    task: bytes
    data_dir: Path
    packages: Mapping[str, str]
    splitter: str

    @classmethod
    def of(
        cls, task: Task[Any], run: RunFile, settings: Settings, recorded: AttemptIndex
    ) -> ClusterRescorer:
        """Return the rescorer of a run's attempts.

        Raises:
            ConfigError: If the task cannot be sent.
        """
        data_dir, path = settings.data_dir.absolute(), recorded.path
        next(iter(task.instances()), None)  # some tasks read some of their files only now
        sent = packed(task, f"The task {run.task.name!r}")
        splitter = _splitter(data_dir) if "splitter" in task.fingerprint() else ""
        judged = recorded.register.judged
        return cls(run, path, judged, sent, data_dir, package_versions(), splitter)

    def read(self, batch: Batch) -> LineBatch:
        """Return a batch with its lines, read from the run's files."""
        attempts = decoded_at(self.attempts, batch.offsets, bytes, ATTEMPT)
        said = judgements_at(self.attempts.with_name(JUDGEMENTS), batch.judgements, bytes)
        return LineBatch(batch.instances, list(attempts), list(said))

    def score(self, batch: LineBatch) -> ScoredBatch:
        """Score the attempts of a batch again.

        Raises:
            ConfigError: If scores on this machine might differ from those on the sender's.
            DataInvalid: If a line is damaged.
        """
        try:
            said = map(_decoded, batch.judgements)
            return self._rescorer.scored(batch.instances, _attempts(batch), said)
        except UNREADABLE as error:
            problem = f"A line of the run's files is damaged ({str(error)[:160]})."
            raise DataInvalid(problem, "Without --engine ray, the error names the line.") from None

    @cached_property
    def _rescorer(self) -> Rescorer:
        set_variables({"HARNESS_DATA_DIR": str(self.data_dir)})
        here = package_versions()
        for name, version in self.packages.items():
            if here.get(name, version) != version:
                problem = f"The version of {name} is {here[name]}, and {version} where the run is."
                raise ConfigError(problem, "Install the same versions on all machines.")
        if self.splitter and (found := _splitter(self.data_dir)) != self.splitter:
            problem = f"Sentences would be split by {found}, and not by {self.splitter}."
            remedy = "Install NLTK's English data on all machines (harness data fetch nltk_english)"
            raise ConfigError(problem, f"{remedy}, or on none.")
        task, settings = unpacked(self.task, "The task"), Settings(data_dir=self.data_dir)
        return Rescorer(task, self.run, settings, self.attempts, self.judged, self.task)


def _splitter(data_dir: Path) -> str:
    from harness.scoring import punkt  # imports NLTK

    return punkt.best(data_dir / "nltk_data").name


def _attempts(batch: LineBatch) -> Iterator[Attempt]:
    return map(decode_attempt, batch.attempts)


def _decoded(lines: Sequence[bytes | None]) -> list[Judgement | None]:
    return [None if one is None else decode_judgement(one) for one in lines]
