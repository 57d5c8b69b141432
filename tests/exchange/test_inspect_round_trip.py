"""A run exported as an Inspect log and imported again is the run."""

import json
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from harness.analysis.metrics import from_json, to_json
from harness.errors import DataInvalid
from harness.exchange.imported_run import write_run
from harness.exchange.inspect_export import write_inspect
from harness.exchange.inspect_import import read_inspect
from harness.exchange.inspect_log import InspectLog
from harness.records import Attempt, Score
from harness.run import measure
from harness.store.calls import read_columns
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder
from tests.exchange.made import attempt, attempts, run, whole_run


def there_and_back(tmp: Path, suffix: str, found: list[Attempt]) -> tuple[RunFolder, RunFolder]:
    folder, told = whole_run(tmp / "runs", "made", found)
    log = tmp / f"made{suffix}"
    write_inspect(run(folder.path, found), folder.read_config(), told, measure(folder), log)
    imported = read_inspect(InspectLog(log))
    return folder, write_run(tmp / "runs", "again", log, imported)


@settings(max_examples=40, deadline=None)
@given(attempts().filter(bool))
@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_attempts_are_equal(suffix: str, found: list[Attempt]) -> None:
    with tempfile.TemporaryDirectory() as tmp:
        before, after = there_and_back(Path(tmp), suffix, found)
        assert list(AttemptIndex(after.attempts).read(Attempt)) == list(
            AttemptIndex(before.attempts).read(Attempt)
        )
        assert after.read_config() == before.read_config()
        told, kept = after.read_manifest(), before.read_manifest()
        for key in ("task", "model", "fingerprint", "started_at", "owed"):
            assert told[key] == kept[key]
        assert read_columns(after.attempts)[1] == read_columns(before.attempts)[1]
        assert from_json(to_json(measure(after)), after.metrics).overall == measure(before).overall


def test_what_inspect_is_told(tmp_path: Path) -> None:
    found = [
        attempt("a/1", 0, 1, passed=False, text="no", feedback="Wrong.", scores={}),
        attempt("a/1", 0, 2, scores={"exact": Score(True, True), "f1": Score(0.25, reason="so")}),
        attempt("a/1", 1, text=None, passed=None, outcome="error", scores={}, error="down"),
    ]
    there_and_back(tmp_path, ".eval", found)
    with zipfile.ZipFile(tmp_path / "made.eval") as log:
        first = json.loads(log.read("samples/a/1_epoch_1.json"))
        second = json.loads(log.read("samples/a/1_epoch_2.json"))
        header = json.loads(log.read("header.json"))
        assert len(json.loads(log.read("summaries.json"))) == 2
    said = [(turn["role"], turn["content"]) for turn in first["messages"]]
    asked = ("user", "Do a/1.")
    assert said == [asked, ("assistant", "no"), ("user", "Wrong."), ("assistant", "done")]
    assert {name: score["value"] for name, score in first["scores"].items()} == {
        "exact": "C",
        "f1": 0.25,
        "passed": "C",
    }
    assert first["scores"]["f1"]["explanation"] == "so"
    assert second["scores"] == {}
    assert second["error"]["message"] == "down"
    (score,) = (one for one in header["results"]["scores"] if one["name"] == "passed")
    assert score["metrics"]["pass_rate"]["value"] == 1.0
    assert (score["scored_samples"], score["unscored_samples"]) == (1, 1)
    assert "host" not in json.dumps(header)


def test_a_log_of_ours_that_was_tampered_with(tmp_path: Path) -> None:
    there_and_back(tmp_path, ".json", [attempt("a")])
    tree = json.loads((tmp_path / "made.json").read_text())
    tree["samples"][0]["metadata"]["harness"]["attempts"][0]["round"] = 0
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(tree))
    with pytest.raises(DataInvalid, match=r"broken\.json, sample 1: sample 0, round 0"):
        write_run(tmp_path / "runs", "x", broken, read_inspect(InspectLog(broken)))
    assert sorted(one.name for one in (tmp_path / "runs").iterdir()) == ["again", "made"]
