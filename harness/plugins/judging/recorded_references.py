"""Writes ``gold/`` in a run's folder: reference answers scored by judges.

The folder has the layout of a run, with one attempt per instance. References are therefore judged,
resumed, paid for and read like a model's answers, but never mixed with them.
"""

import time
from collections.abc import Iterable
from pathlib import Path

from harness.errors import StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, replace_surrogates
from harness.store.attempt_lines import ATTEMPT
from harness.store.columns import LineKey
from harness.store.files import REMEDY
from harness.store.json_lines import JsonLinesWriter, decode_lines
from harness.store.run_folder import RunFolder


class Unit(LineKey):
    """The groups and the statistical cluster of an instance."""

    groups: dict[str, str]
    cluster: str


class _Line(LineKey):
    text: str | None = None


def read_units(path: Path) -> dict[str, Unit]:
    """Return the groups and cluster of each instance in an attempts file, by instance id."""
    return {line.instance: line for _, _, line in decode_lines(path, Unit, ATTEMPT)}


def record_references(folder: RunFolder, references: Iterable[tuple[Unit, str]]) -> None:
    """Append new and changed reference answers to the attempts in ``folder``."""
    try:
        folder.path.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreFailed(f"Cannot create {folder.path}: {error.strerror}.", REMEDY) from None
    recorded = {
        line.instance: line.text for _, _, line in decode_lines(folder.attempts, _Line, ATTEMPT)
    }
    with JsonLinesWriter(folder.attempts) as writer:
        for unit, text in references:
            if recorded.get(unit.instance) == replace_surrogates(text):
                continue
            now = time.time()
            name = (SCHEMA_VERSION, unit.instance, 0, 1)
            attempt = Attempt(*name, unit.groups, unit.cluster, {}, "ok", now, now, text=text)
            writer.append(attempt)
