"""Runs for pictures, from attempts that were written to a file and read back."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.analysis.summary import RunFacts, summarise
from harness.plugins.report.runs import ReportedRun
from harness.ports import Effect
from harness.records import SCHEMA_VERSION, Attempt
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.columns import read_columns

EFFECTS = (
    Effect(
        name="position_effect",
        label="structure",
        levels={
            "arbitrary": ("word02", "sent02"),
            "first": ("para01",),
            "last": ("word03", "para05", "pass01"),
        },
        source="a paper",
    ),
    Effect("of_nothing", "structure", {"one": ("word01",), "other": ("none",)}, "a paper"),
)

Report = Callable[..., ReportedRun]


def attempt(instance: str, passed: bool | None, **others: Any) -> Attempt:
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
    return replace(made, **others)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    def report(
        name: str,
        attempts: Iterable[Attempt],
        marks: Sequence[str] = (),
        settings: Any = None,
        effects: Sequence[Effect] = (),
        measure: str | None = None,
        metrics: Any = None,
        **others: Any,
    ) -> ReportedRun:
        path = tmp_path_factory.mktemp("run") / "attempts.jsonl"
        with JsonLinesWriter(path) as writer:
            for one in attempts:
                writer.append(one)
        found = summarise(*read_columns(path), RunFacts(run=name, task="t", measure=measure))
        known = {"latencies": None, "constraints": (), "manifest": {}, **others}
        return ReportedRun(
            name=name,
            metrics=replace(found, **(metrics or {})),
            marks=marks,
            index=AttemptIndex(path),
            settings=settings or {},
            effects=effects,
            **known,
        )

    return report


def _recorded(folder: Path, model: str, rounds: int) -> Iterable[Attempt]:
    lines = (folder / "instances.jsonl").read_text().splitlines()
    instances = {row["id"]: row for row in map(json.loads, lines)}
    for row in json.loads((folder / f"expected_{model}.json").read_text())["instances"]:
        instance = instances[row["id"]]
        for number, passed in enumerate(row["verdicts"][:rounds], start=1):
            yield attempt(
                row["id"],
                passed,
                round=number,
                cluster=hashlib.sha256(instance["prompt"].encode()).hexdigest(),
                groups={key: instance[key] for key in ("structure", "source")},
            )


@pytest.fixture(scope="session")
def gpt4(data_dir: Path, report: Report) -> ReportedRun:
    """The official verdicts on gpt-4's four recorded rounds."""
    return report("gpt-4", _recorded(data_dir / "collie", "gpt-4", 4), effects=EFFECTS)


@pytest.fixture(scope="session")
def vicuna(data_dir: Path, report: Report) -> ReportedRun:
    return report("vicuna", _recorded(data_dir / "collie", "vicuna-7b", 1), effects=EFFECTS)


@pytest.fixture(scope="session")
def expected(data_dir: Path) -> dict[str, Any]:
    content = json.loads((data_dir / "collie" / "expected_gpt-4.json").read_text())
    tables: dict[str, Any] = content["tables"]
    return tables
