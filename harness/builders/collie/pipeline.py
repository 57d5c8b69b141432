"""The two long stages of a build: extraction from the corpus, batch by batch, and the audit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.builders.collie.audit import Audited, Subject, audit
from harness.builders.collie.batch import Batch, Plan, extract_batch
from harness.builders.collie.documents import Documents
from harness.builders.collie.instances import Row
from harness.builders.collie.yields import Yield
from harness.builders.stages import Stages, key_of
from harness.builders.workers import Workers


class Pipeline:
    """A build under way.

    corpora: the documents of each source, by its name, in the order of the plan.
    key: of all that the result depends on besides the documents.
    told: is told what has been done, in a line.
    yields: what each source has yielded so far.
    """

    def __init__(
        self,
        plan: Plan,
        corpora: Mapping[str, Documents],
        key: str,
        stages: Stages,
        workers: Workers,
        told: Callable[[str], None],
    ) -> None:
        self.yields = {name: Yield() for name in corpora}
        self._plan = plan
        self._corpora = corpora
        self._key = key
        self._stages = stages
        self._workers = workers
        self._told = told

    def extract(self) -> None:
        """Extract the candidates of every source. Each batch is a stage.

        Raises: a `harness.errors.HarnessError`.
        """
        waiting: deque[tuple[str, str, str]] = deque()
        for part in self._workers.in_order(extract_batch, self._missing(waiting)):
            name, stage, key = waiting.popleft()
            self._stages.keep(stage, key, part)
            self._add(name, part)
            found, documents = self.yields[name], self._corpora[name]
            self._told(
                f"{name}: {found.documents:,} of {documents.chosen:,} documents, "
                f"{found.characters / 1e6:.1f} million characters"
            )

    def _missing(self, waiting: deque[tuple[str, str, str]]) -> Iterator[Batch]:
        """The batches that no earlier build has done; what it has is taken in.

        waiting: gets the source, the stage and its key of each.
        """
        encoded = msgspec.json.encode(self._plan)
        for number, (name, documents) in enumerate(self._corpora.items()):
            for place, some in enumerate(documents.batches()):
                stage = f"{name}-{place:05}"
                key = key_of(self._key, name, some)
                there = self._stages.found(stage, key, Yield)
                if there is not None:
                    self._add(name, there)
                    continue
                waiting.append((name, stage, key))
                yield Batch(encoded, number, some)

    def _add(self, name: str, part: Yield) -> None:
        self.yields[name].add(part, self._plan.limits, self._plan.seed)

    def audit(self, rows: Sequence[Row]) -> list[Audited]:
        """Audit the instances, each against natural texts of its source and level.

        Raises: a `harness.errors.HarnessError`.
        """
        self._told(f"{len(rows):,} instances; auditing them")
        background = {
            f"{name} {level}": texts
            for name, found in self.yields.items()
            for level, texts in found.background.items()
        }
        subjects = [_subject(row) for row in rows]

        def audited() -> list[Audited]:
            return audit(subjects, background, Path(self._plan.nltk_data), self._workers)

        key = key_of(self._key, subjects, background)
        return self._stages.result("audit", key, list[Audited], audited)


def _subject(row: Row) -> Subject:
    return Subject(
        row.id,
        row.structure,
        row.source,
        {"level": row.level, "constraint": row.constraint, "targets": row.targets},
        row.example,
        row.prompt,
        f"{row.source} {row.level}",
    )
