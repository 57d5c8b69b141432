"""``gold/`` in a run's folder: gold answers that its judges have scored, apart from the attempts.

It has the form of a run that nobody was asked for: ``attempts.jsonl`` with a line for each
instance, whose text is its gold answer, and the judges' ``judgements.jsonl`` and ``judges.json``.
So they are judged, resumed, paid for and read as answers are, and are never among them.

>>> folder = gold_folder(RunFolder(Path("runs"), "coherent"))
>>> folder.attempts.as_posix()
'runs/coherent/gold/attempts.jsonl'
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.errors import DataInvalid, StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, encodable
from harness.store.json_lines import JsonLinesWriter, lines
from harness.store.run_folder import GOLD, RunFolder


class Unit(NamedTuple):
    """What a run's attempts say of an instance."""

    groups: Mapping[str, str]
    cluster: str


class Gold(NamedTuple):
    """The gold answer to an instance."""

    instance: str
    unit: Unit
    text: str


def gold_folder(folder: RunFolder) -> RunFolder:
    """Where the judged golds of a run are."""
    return RunFolder(folder.path, GOLD)


def read_units(path: Path) -> dict[str, Unit]:
    """The instances of a run's attempts.

    Raises: DataInvalid, StoreFailed.
    """
    return {line.instance: Unit(line.groups, line.cluster) for line in _decoded(path)}


def record_golds(
    folder: RunFolder, golds: Iterable[Gold], clock: Callable[[], float] = time.time
) -> None:
    """Write down those that are not there yet, or are others now.

    folder: of the golds.

    Raises: DataInvalid, StoreFailed.
    """
    try:
        folder.path.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"Cannot make {folder.path}: {error.strerror}.", "Mend the permissions, then try again."
        ) from None
    there = {line.instance: line.text for line in _decoded(folder.attempts)}
    with JsonLinesWriter(folder.attempts) as writer:
        for gold in golds:
            if there.get(gold.instance) == encodable(gold.text):
                continue
            now = clock()
            writer.append(
                Attempt(
                    v=SCHEMA_VERSION,
                    instance=gold.instance,
                    sample=0,
                    round=1,
                    groups=gold.unit.groups,
                    cluster=gold.unit.cluster,
                    request={},
                    outcome="ok",
                    started_at=now,
                    ended_at=now,
                    text=gold.text,
                )
            )


class _Line(msgspec.Struct):
    instance: str
    groups: dict[str, str]
    cluster: str
    text: str | None = None


def _decoded(path: Path) -> Iterable[_Line]:
    decode = msgspec.json.Decoder(_Line).decode
    try:
        for number, (_, text) in enumerate(lines(path), start=1):
            try:
                yield decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise DataInvalid(
                    f"{path}, line {number}: not an attempt ({str(error)[:160]}).",
                    "Remove the line, then try again.",
                ) from None
    except OSError as error:
        raise StoreFailed(
            f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then try again."
        ) from None
