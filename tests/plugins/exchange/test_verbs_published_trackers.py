"""Runs in experiment trackers, read back by their own SDKs; nothing leaves this machine.

Skipped without the SDKs; scripts/test-exchange installs them.
"""

import csv
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.exchange.exported_run import ExportedRows, ExportedRun, exported_run
from harness.plugins.exchange.verbs import figures, log_mlflow, log_wandb
from harness.records import Attempt
from tests.backends.stand_ins import until
from tests.plugins.exchange.made import attempt, whole_run

FOUND = [attempt(f"i{n}", n % 2, passed=n > 0, text="=1\n\u202e") for n in range(4)]


def parts(tmp: Path, found: list[Attempt], **config: Any) -> tuple[ExportedRun, ExportedRows]:
    folder = whole_run(tmp / "runs", "made", found, simulated=True)
    folder.write_config(folder.read_config().model_copy(update=config))
    exported = exported_run(folder)
    return exported, ExportedRows([exported])


@pytest.mark.skipif(find_spec("mlflow") is None, reason="needs mlflow: scripts/test-exchange")
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    for _ in range(2):  # the second export updates the first
        exported, rows = parts(tmp_path, FOUND)
        log_mlflow(exported, rows, "evaluations")
    [logged] = mlflow.search_runs(experiment_names=["evaluations"], output_format="list")
    found = figures(exported.metrics)
    expected = {name.replace("@", "_").replace("^", "_"): v for name, v in found.items()}
    assert logged.data.metrics == expected
    assert 0 < expected["pass_rate/ci95_low"] < expected["pass_rate"] == 0.75
    assert logged.data.params["model.name"] == "m"
    assert logged.data.tags["harness.simulated"] == "true"
    path = mlflow.artifacts.download_artifacts(run_id=logged.info.run_id, dst_path=str(tmp_path))
    with Path(path, "samples.csv").open(newline="", encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    assert texts == ["=1\n\u202e"] * 4
    assert "name: m" in Path(path, "config.yaml").read_text()
    log_mlflow(*parts(tmp_path, FOUND, samples=5), "evaluations")  # parameters cannot change
    assert len(mlflow.search_runs(experiment_names=["evaluations"], output_format="list")) == 2


@pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb: scripts/test-exchange")
def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    exported, rows = parts(tmp_path, FOUND)
    places = [log_wandb(exported, rows, "us/evaluations") for _ in range(2)]
    assert all(place.startswith("to send it: wandb sync ") for place in places)
    folders = [Path(place.rpartition(" ")[2]) for place in places]
    # Both have the same id, so that the second updates the first when they are sent.
    [name] = {file.name for folder in folders for file in folder.glob("run-*.wandb")}
    [table] = folders[-1].rglob("*.table.json")
    content = json.loads(table.read_text())
    assert content["columns"] == list(rows.columns)
    assert len(content["data"]) == 4
    [path] = folders[-1].glob("run-*.wandb")
    until(lambda: all(_read(path)), "the summary and config in the run's file")
    summary, config = _read(path)
    assert name == f"run-{config.pop('id')}.wandb"
    assert summary["pass_rate"] == 0.75
    assert 0 < summary["pass_rate/ci95_low"] < 0.75
    assert config["model"]["name"] == "m"


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The summary and config in an offline run's file: wandb's messages in LevelDB's log format."""
    from wandb.proto import wandb_internal_pb2

    summary: dict[str, Any] = {}
    config: dict[str, Any] = {}
    content, place, data = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:  # a block's rest is too small for a header
            place += 32768 - place % 32768
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        data += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind not in (1, 4):  # the first or a middle part
            continue
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        data = b""
        for item in [*record.summary.update, *record.run.summary.update]:
            summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
        if record.run.run_id:
            config["id"] = record.run.run_id
            config |= {one.key: json.loads(one.value_json) for one in record.run.config.update}
    return summary, config


@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
@pytest.mark.parametrize("log", [log_wandb, log_mlflow])
def test_a_missing_sdk_is_named(log: Any, tmp_path: Path) -> None:
    from harness.errors import ConfigError

    with pytest.raises(ConfigError, match=r"needs the package .*harness-instruct\[trackers\]"):
        log(*parts(tmp_path, FOUND))
