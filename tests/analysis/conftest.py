"""Summaries of attempts that really were written to a file and read back."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from harness.analysis.metrics import Metrics
from harness.analysis.summary import RunFacts, summarise
from harness.records import SCHEMA_VERSION, Attempt
from harness.store.columns import AttemptTable
from harness.store.json_lines import JsonLinesWriter
from tests.columns import read_columns

Make = Callable[..., Attempt]
Summarise = Callable[[Iterable[Attempt]], Metrics]
TableOf = Callable[[Iterable[Attempt]], AttemptTable]


@pytest.fixture(scope="session")
def make() -> Make:
    def make(instance: str, passed: bool | None, **others: object) -> Attempt:
        made = Attempt(
            v=SCHEMA_VERSION,
            instance=instance,
            sample=0,
            round=1,
            groups={},
            cluster=instance,
            request={},
            outcome="error" if passed is None else "ok",
            started_at=0.0,
            ended_at=0.0,
            passed=passed,
        )
        return msgspec.structs.replace(made, **others)

    return make


@pytest.fixture(scope="session")
def summary_of(tmp_path_factory: pytest.TempPathFactory) -> Summarise:
    path = tmp_path_factory.mktemp("run") / "attempts.jsonl"

    def summary_of(attempts: Iterable[Attempt]) -> Metrics:
        path.unlink(missing_ok=True)
        with JsonLinesWriter(path) as writer:
            for attempt in attempts:
                writer.append(attempt)
        return summarise(*read_columns(path), RunFacts(run="r", task="t"))

    return summary_of


@pytest.fixture(scope="session")
def table_of(tmp_path_factory: pytest.TempPathFactory) -> TableOf:
    path = tmp_path_factory.mktemp("run") / "attempts.jsonl"

    def table_of(attempts: Iterable[Attempt]) -> AttemptTable:
        path.unlink(missing_ok=True)
        with JsonLinesWriter(path) as writer:
            for attempt in attempts:
                writer.append(attempt)
        return read_columns(path)[0]

    return table_of


@pytest.fixture(scope="session")
def recorded(make: Make) -> list[Attempt]:
    """The official verdicts on gpt-4's four recorded rounds, which went on after success."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("HARNESS_DATA_DIR", beside)) / "collie"
    if not folder.is_dir():
        pytest.skip(f"no recorded data in {folder}: set HARNESS_DATA_DIR")
    instances = {
        row["id"]: row
        for row in map(msgspec.json.decode, (folder / "instances.jsonl").read_bytes().splitlines())
    }
    attempts = []
    for row in msgspec.json.decode((folder / "expected_gpt-4.json").read_bytes())["instances"]:
        instance = instances[row["id"]]
        prompt = hashlib.sha256(instance["prompt"].encode()).hexdigest()
        attempts += [
            make(
                row["id"],
                passed,
                round=number,
                cluster=prompt,
                groups={"structure": instance["structure"], "source": instance["source"]},
                call_id=f"{prompt}/{number}",
            )
            for number, passed in enumerate(row["verdicts"], start=1)
        ]
    return attempts


@pytest.fixture(scope="session")
def expected_tables() -> dict[str, dict[str, float]]:
    """The published rates per round and structure."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("HARNESS_DATA_DIR", beside)) / "collie" / "expected_gpt-4.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there: set HARNESS_DATA_DIR")
    tables: dict[str, dict[str, float]] = msgspec.json.decode(path.read_bytes())["tables"]
    return tables
