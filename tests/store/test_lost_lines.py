"""A run's files that were emptied, cut, deleted or replaced after its last session."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.summary import measure
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import StoreFailed
from harness.store.index import read_attempts
from harness.store.judgements import read_register
from harness.store.lost_lines import find_loss, is_unchanged
from harness.store.run_folder import RunFolder

JUDGE = {"name": "score", "as": "quality"}
JUDGED = {
    "task": {"name": "last_letter", "n": 2},
    "model": {"backend": "simulated", "name": "m", "accuracy": 0.5},
    "judges": [{**JUDGE, "passes_from": 5, "model": {"backend": "simulated"}}],
    "samples": 3,
}


async def run(root: Path, name: str = "run", **changes: Any) -> RunFolder:
    settings = Settings(**dict.fromkeys(("runs_dir", "cache_dir", "data_dir"), root))
    job = prepare(RunFile.model_validate({**JUDGED, **changes}), name, settings)
    await execute(job)
    return job.folder


def loss(folder: RunFolder) -> str:
    found = find_loss(folder, read_attempts(folder.attempts))
    return found.message if found else ""


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def without_first(path: Path) -> None:
    path.write_bytes(b"".join(lines(path)[1:]))


def of_another_judge(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"judge":"quality"', b'"judge":"qualitY"'))


@pytest.mark.parametrize("damage", [emptied, without_first, Path.unlink, of_another_judge])
async def test_lost_judgements_are_reported_and_repeated(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    folder = await run(tmp_path)
    before = measure(folder)
    assert before.complete
    damage(folder.path / "judgements.jsonl")
    assert not is_unchanged(folder, folder.read_manifest())
    assert loss(folder).endswith("judgements are lost.")
    assert not measure(folder).complete
    await run(tmp_path)
    assert not loss(folder)
    assert measure(folder).overall == before.overall


async def test_judgements_that_an_earlier_version_recorded_are_not_all_lost(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    manifest = folder.read_manifest()
    del manifest["attempts"]
    del manifest["judgements"]
    folder.manifest.write_text(json.dumps(manifest))
    assert not loss(folder)
    (folder.path / "judgements.jsonl").unlink()
    assert loss(folder).endswith("judgements are lost.")


@pytest.mark.parametrize("content", [None, "{}"])
async def test_a_lost_list_of_judges_is_refused_and_restored(
    tmp_path: Path, content: str | None
) -> None:
    folder = await run(tmp_path)
    path, before = folder.path / "judges.json", measure(folder)
    path.unlink()
    if content is not None:
        path.write_text(content)
    for read in (measure, lambda folder: read_attempts(folder.attempts)):
        with pytest.raises(StoreFailed, match=r"judges\.json lacks 'quality', which config"):
            read(folder)
    await run(tmp_path)
    assert read_register(folder.path).judges.keys() == {"quality"}
    assert measure(folder) == before


async def test_attempts_of_another_run_are_noticed(tmp_path: Path) -> None:
    folder, other = await run(tmp_path), await run(tmp_path, "other", seed=5)
    folder.attempts.write_bytes(other.attempts.read_bytes())
    assert "it may have attempts of another run" in loss(folder)
    assert not measure(folder).complete


def later_sample(line: bytes) -> bytes:
    attempt = json.loads(line)
    return json.dumps(attempt | {"sample": attempt["sample"] + 3}).encode() + b"\n"


async def test_copies_in_the_place_of_samples_are_noticed(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    _, *others = lines(folder.attempts)
    folder.attempts.write_bytes(b"".join([later_sample(others[-1]), *others]))
    assert "it may have attempts of another run" in loss(folder)
    await run(tmp_path)  # repeats the first sample
    assert "has 1 sample too many" in loss(folder)
    folder.attempts.unlink()
    await run(tmp_path)
    assert not loss(folder)
    assert len(lines(folder.attempts)) == len(others) + 1


async def test_an_appended_line_is_no_loss(tmp_path: Path) -> None:
    """A judge of the run may add judgements after its last session."""
    folder = await run(tmp_path)
    path = folder.path / "judgements.jsonl"
    path.write_bytes(path.read_bytes() + lines(path)[0])
    assert not loss(folder)


async def test_a_run_without_a_number_of_samples_is_not_complete(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    manifest = folder.read_manifest()
    del manifest["samples"]
    folder.manifest.write_text(json.dumps(manifest))
    assert not measure(folder).complete
