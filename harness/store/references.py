"""``gold/`` in a run's folder: reference answers that its judges have scored.

It has the form of a run: ``attempts.jsonl`` with a line for each instance, whose text is the
reference answer, and the judges' ``judgements.jsonl`` and ``judges.json``. So references are
judged, resumed, paid for and read like answers, and never mixed with them.

>>> references_folder(RunFolder(Path("runs"), "coherent")).attempts.as_posix()
'runs/coherent/gold/attempts.jsonl'
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.errors import StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, encodable
from harness.store.columns import LineName
from harness.store.files import REMEDY
from harness.store.index import ATTEMPT
from harness.store.json_lines import JsonLinesWriter, decoded
from harness.store.run_folder import REFERENCES, RunFolder


class Unit(NamedTuple):
    """The groups and the cluster of an instance, as a run's attempts have them."""

    groups: Mapping[str, str]
    cluster: str


class Reference(NamedTuple):
    """The reference answer to an instance."""

    instance: str
    unit: Unit
    text: str


class _Line(LineName):
    groups: dict[str, str]
    cluster: str
    text: str | None = None


def references_folder(folder: RunFolder) -> RunFolder:
    """Return the folder of a run's judged references."""
    return RunFolder(folder.path, REFERENCES)


def read_units(path: Path) -> dict[str, Unit]:
    """Read the instances of a run's attempts."""
    lines = decoded(path, _Line, ATTEMPT)
    return {line.instance: Unit(line.groups, line.cluster) for _, _, line in lines}


def record_references(
    folder: RunFolder, references: Iterable[Reference], clock: Callable[[], float] = time.time
) -> None:
    """Write the references that are not recorded yet, or have changed, to their folder."""
    try:
        folder.path.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreFailed(f"Cannot create {folder.path}: {error.strerror}.", REMEDY) from None
    recorded = {line.instance: line.text for _, _, line in decoded(folder.attempts, _Line, ATTEMPT)}
    with JsonLinesWriter(folder.attempts) as writer:
        for reference in references:
            if recorded.get(reference.instance) == encodable(reference.text):
                continue
            now = clock()
            writer.append(
                Attempt(
                    v=SCHEMA_VERSION,
                    instance=reference.instance,
                    sample=0,
                    round=1,
                    groups=reference.unit.groups,
                    cluster=reference.unit.cluster,
                    request={},
                    outcome="ok",
                    started_at=now,
                    ended_at=now,
                    text=reference.text,
                )
            )
