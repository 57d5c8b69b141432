"""Attempts and tables of them, as in the tests of the analysis."""

import os
from pathlib import Path

import msgspec
import pytest

from harness.store.columns import AttemptTable
from tests.analysis.conftest import Make, TableOf, make, table_of

__all__ = ["make", "table_of"]


@pytest.fixture(scope="session")
def collie(make: Make, table_of: TableOf) -> dict[str, AttemptTable]:
    """The official verdicts on the first recorded round of each model."""
    beside = Path(__file__).parents[4] / "shared" / "data"
    folder = Path(os.environ.get("HARNESS_DATA_DIR", beside)) / "collie"
    if not folder.is_dir():
        pytest.skip(f"no recorded data in {folder}: set HARNESS_DATA_DIR")
    lines = (folder / "instances.jsonl").read_bytes().splitlines()
    instances = {row["id"]: row for row in map(msgspec.json.decode, lines)}
    tables = {}
    for model in ("vicuna-7b", "gpt-4"):
        expected = msgspec.json.decode((folder / f"expected_{model}.json").read_bytes())
        tables[model] = table_of(
            make(
                row["id"],
                row["verdicts"][0],
                cluster=instances[row["id"]]["prompt"],
                groups={key: instances[row["id"]][key] for key in ("structure", "source")},
            )
            for row in expected["instances"]
        )
    return tables
