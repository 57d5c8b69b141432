"""A run's attempts and calls, read together."""

from pathlib import Path

from harness.store.calls import RunCalls, read_calls
from harness.store.columns import AttemptTable
from harness.store.index import read_attempts


def read_columns(path: Path) -> tuple[AttemptTable, RunCalls]:
    """Read the attempts and the calls of a run."""
    return read_attempts(path), read_calls(path)
