"""Results as Hugging Face's own class reads them.

Skipped without huggingface_hub; scripts/test-exchange installs it.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import ConfigError, DataMissing
from harness.plugins.exchange.exported_run import exported_run
from harness.plugins.exchange.verbs import write_hf_results
from tests.plugins.exchange.made import attempt, whole_run

hub = pytest.importorskip("huggingface_hub")

WHERE = {"dataset_id": "google/IFEval", "task_id": "ifeval"}
FOUND = [attempt(f"i{n}", passed=n > 0) for n in range(4)]


def entry(tmp: Path, fields: dict[str, str] = WHERE, **manifest: Any) -> Any:
    folder = whole_run(tmp / "runs", "made", FOUND, **{"samples": len(FOUND), "owed": 0} | manifest)
    path = tmp / "made.yaml"
    assert write_hf_results(exported_run(folder), path, fields) == 0.75
    [found] = hub.parse_eval_result_entries(yaml.safe_load(path.read_text()))
    return found


def test_the_entry_reads_back(tmp_path: Path) -> None:
    found = entry(tmp_path, {**WHERE, "source_url": "https://x.example", "source_name": "logs"})
    notes = found.notes
    assert found == hub.EvalResultEntry(
        **WHERE,
        value=0.75,
        date="1970-01-01T00:00:02+00:00",
        source_url="https://x.example",
        source_name="logs",
        notes=notes,
    )
    assert notes.startswith("pass_rate as a fraction, 95% CI 0.")
    assert "4 samples; harness-instruct" in notes
    assert entry(tmp_path, {**WHERE, "notes": "no-tools"}).notes == "no-tools"
    assert "incomplete: 4 of 9" in entry(tmp_path, samples=9, owed=5).notes


@pytest.mark.parametrize(
    ("fields", "manifest", "problem"),
    [
        ({"dataset_id": "a/b"}, {}, "requires the field 'task_id'"),
        ({**WHERE, "value": "1"}, {}, "no field 'value'"),
        ({**WHERE, "source_name": "x"}, {}, "`source_url` must also be provided"),
        (WHERE, {"simulated": True}, "are simulated"),
    ],
)
def test_mistakes(
    fields: dict[str, str], manifest: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem):
        entry(tmp_path, fields, **manifest)


def test_a_measure_without_a_value(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="no value of its measure 'bleu'"):
        entry(tmp_path, measure="bleu")
