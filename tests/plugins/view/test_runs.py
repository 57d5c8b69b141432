"""The list of runs of the live view."""

import json
from pathlib import Path

from harness.config.run_file import RunFile
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.plugins.view.runs import RunList
from tests.plugins.view.test_status import run_file, settings


async def test_a_run_that_has_lost_its_manifest_and_lines_is_not_complete(tmp_path: Path) -> None:
    run = run_file("http://127.0.0.1:1/v1") | {"model": {"backend": "simulated"}}
    await execute(prepare(RunFile.model_validate(run), "run", settings(tmp_path)))
    listed = RunList([tmp_path])
    listed.look()
    assert listed.summaries["run"].state == "complete"
    folder = tmp_path / "run"
    lines = (folder / "attempts.jsonl").read_text().splitlines(keepends=True)
    (folder / "attempts.jsonl").write_text("".join(lines[:3]))
    (folder / "metrics.json").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").unlink()
    listed = RunList([tmp_path])
    listed.look()
    entry = listed.summaries["run"]
    assert (entry.state, entry.rate, entry.done) == ("unreadable", None, None)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    listed = RunList([tmp_path])
    listed.look()
    assert listed.summaries["run"].state != "complete"
