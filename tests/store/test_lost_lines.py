"""A run's files that were emptied, cut, deleted or replaced after its last session."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.analysis.summary import compute_metrics, read_metrics
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import DataInvalid, RunConflict, StoreFailed
from harness.store.file_states import SETTINGS_FILES, compute_states, record_states
from harness.store.index import read_attempts
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import Judgement, read_register, write_register
from harness.store.lost_lines import find_loss, is_unchanged
from harness.store.run_folder import RunFolder
from tests.rows import WORDS

JUDGE = {"name": "yes_no", "as": "quality"}
JUDGED = {
    "limit": 2,
    "model": {"backend": "simulated", "name": "m", "accuracy": 0.5},
    "judges": [{**JUDGE, "model": {"backend": "simulated"}}],
    "samples": 3,
}


def criteria(folder: Path) -> dict[str, Any]:
    """The task of words, with a criterion for a judge in each row."""
    path = folder / "rows.jsonl"
    rows = [json.loads(line) for line in lines(Path(WORDS["path"]))]
    judged = [json.dumps(row | {"criteria": ["Is it a word?"]}) for row in rows]
    path.write_text("\n".join(judged))
    return WORDS | {"path": str(path)}


async def run(root: Path, name: str = "run", **changes: Any) -> RunFolder:
    settings = Settings(**dict.fromkeys(("runs_dir", "cache_dir", "data_dir"), root))
    content = {"task": criteria(root), **JUDGED, **changes}
    job = prepare(RunFile.model_validate(content), name, settings)
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


@pytest.mark.parametrize("damage", [emptied, without_first, Path.unlink])
async def test_lost_judgements_are_reported_and_repeated(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    folder = await run(tmp_path)
    before = compute_metrics(folder)
    assert before.complete
    damage(folder.path / "judgements.jsonl")
    assert not is_unchanged(folder, folder.read_manifest())
    assert "judgements.jsonl was changed after the run's last session" in loss(folder)
    assert not compute_metrics(folder).complete
    await run(tmp_path)
    assert not loss(folder)
    assert compute_metrics(folder).overall == before.overall


async def test_judgements_that_an_earlier_version_recorded_are_not_all_lost(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    manifest = folder.read_manifest()
    del manifest["files"], manifest["sealed"]
    folder.manifest.write_text(json.dumps(manifest))
    assert not loss(folder)
    (folder.path / "judgements.jsonl").unlink()
    assert loss(folder).endswith("judgements are lost.")


async def test_a_manifest_that_no_longer_describes_the_files_is_noticed(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    manifest = folder.read_manifest()
    del manifest["files"]
    folder.manifest.write_text(json.dumps(manifest))
    assert "manifest.json was changed" in loss(folder)
    assert not compute_metrics(folder).complete


@pytest.mark.parametrize("content", [None, "{}"])
async def test_a_lost_list_of_judges_is_refused_and_restored(
    tmp_path: Path, content: str | None
) -> None:
    folder = await run(tmp_path)
    path, before = folder.path / "judges.json", compute_metrics(folder)
    path.unlink()
    if content is not None:
        path.write_text(content)
    for read in (compute_metrics, lambda folder: read_attempts(folder.attempts)):
        with pytest.raises(StoreFailed, match=r"judges\.json was changed"):
            read(folder)
    await run(tmp_path)
    assert read_register(folder.path).judges.keys() == {"quality"}
    assert compute_metrics(folder) == before


def renamed(register: dict[str, Any]) -> None:
    register["judges"]["evil"] = register["judges"].pop("late")


def deciding(register: dict[str, Any]) -> None:
    register["judges"]["late"]["decides"] = True


def deleted(register: dict[str, Any]) -> None:
    del register["judges"]["late"]


def judged_later(folder: RunFolder) -> None:
    register, path = read_register(folder.path), folder.path / "judgements.jsonl"
    late = msgspec.structs.replace(register.judges["quality"], decides=False)
    judges = {**register.judges, "late": late}
    write_register(folder.path, msgspec.structs.replace(register, judges=judges))
    judgements = [msgspec.json.decode(line, type=Judgement) for line in lines(path)]
    with JsonLinesWriter(path, folder.line_sealer()) as writer:
        for judgement in judgements:
            writer.append(msgspec.structs.replace(judgement, judge="late", scores={}))
    record_states(folder.path, compute_states(folder.path, ["judgements.jsonl"]))


@pytest.mark.parametrize("edit", [renamed, deciding, deleted])
async def test_a_changed_list_with_a_later_judge_is_not_adopted(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None]
) -> None:
    folder = await run(tmp_path)
    judged_later(folder)
    path, before = folder.path / "judges.json", compute_metrics(folder)
    content = path.read_bytes()
    register = json.loads(content)
    edit(register)
    path.write_text(json.dumps(register))
    for _ in range(2):
        with pytest.raises(RunConflict, match=r"settings of 'late'.* are unknown"):
            await run(tmp_path)
        with pytest.raises(StoreFailed, match=r"settings of 'late'.* are unknown"):
            compute_metrics(folder)
    path.write_bytes(content)
    await run(tmp_path)
    assert compute_metrics(folder) == before


@pytest.mark.parametrize("judges", [JUDGED["judges"], []])
async def test_a_judge_that_was_added_by_hand_is_dropped(
    tmp_path: Path, judges: list[dict[str, Any]]
) -> None:
    folder = await run(tmp_path, judges=judges)
    path, before = folder.path / "judges.json", compute_metrics(folder)
    register = {"judged": ["ok"], "judges": {"evil": {"section": {}, "decides": True}}}
    path.write_text(json.dumps(register))
    await run(tmp_path, judges=judges)
    assert "evil" not in read_register(folder.path).judges
    assert compute_metrics(folder) == before


@pytest.mark.parametrize("name", ["attempts.jsonl", "judgements.jsonl"])
@pytest.mark.parametrize("n", [1, 6])
@pytest.mark.parametrize("killed", [True, False])
async def test_lines_of_another_run_are_refused(
    tmp_path: Path, name: str, n: int, killed: bool
) -> None:
    folder, other = await run(tmp_path), await run(tmp_path, "other", decoding={"max_tokens": 9})
    if killed:
        kill(folder)
    (folder.path / name).write_bytes(b"".join(lines(other.path / name)[:n]))
    with pytest.raises(DataInvalid, match=rf"{name}, line 1: this line is from another run"):
        compute_metrics(folder)
    with pytest.raises((DataInvalid, RunConflict)):
        await run(tmp_path)
    (folder.path / name).unlink()
    await run(tmp_path)
    assert compute_metrics(folder).complete


def kill(folder: RunFolder) -> None:
    """Make a run one whose first session was killed, as far as its manifest says."""
    manifest = folder.read_manifest()
    manifest["sessions"][-1] |= {"ended": "killed", "ended_at": None}
    states = {name: manifest["files"][name] for name in SETTINGS_FILES}
    folder.manifest.write_text(json.dumps(manifest | {"files": states}))


@pytest.mark.parametrize("name", ["attempts.jsonl", "judgements.jsonl"])
async def test_a_loss_is_noticed_after_a_kill_of_a_later_session(tmp_path: Path, name: str) -> None:
    folder = await run(tmp_path)
    manifest = folder.read_manifest()
    manifest["sessions"].append({**manifest["sessions"][0], "ended": "killed", "ended_at": None})
    folder.manifest.write_text(json.dumps(manifest))
    assert not loss(folder)
    path = folder.path / name
    path.write_bytes(b"".join(lines(path)[:-1]))
    assert f"a part of {name} is lost" in loss(folder)
    await run(tmp_path)
    assert not loss(folder)
    assert compute_metrics(folder).complete


@pytest.mark.parametrize("content", [None, "{}"])
async def test_a_run_without_its_manifest_is_not_continued(
    tmp_path: Path, content: str | None
) -> None:
    folder = await run(tmp_path)
    folder.manifest.unlink()
    if content is not None:
        folder.manifest.write_text(content)
    assert not compute_metrics(folder).complete
    with pytest.raises(RunConflict, match=r"manifest\.json is missing or empty"):
        await run(tmp_path)


async def test_a_copied_run_keeps_its_lines(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    copy = RunFolder(tmp_path, "copy")
    shutil.copytree(folder.path, copy.path, copy_function=shutil.copyfile)  # without times
    assert is_unchanged(copy, copy.read_manifest())
    assert compute_metrics(copy).overall == compute_metrics(folder).overall


@pytest.mark.parametrize("name", ["attempts.jsonl", "judgements.jsonl"])
@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (b'"v":1,', b'"v":1 ,', "was edited"),
        (b'"sample":1', b'"sample":3', "was edited"),
        (b',"run":"', b',"ran":"', "has no seal"),
        (b'"}\n', b'" }\n', "has no seal"),
    ],
)
async def test_edited_lines_are_refused(
    tmp_path: Path, name: str, killed: bool, before: bytes, after: bytes, problem: str
) -> None:
    folder = await run(tmp_path)
    if killed:
        kill(folder)
    path = folder.path / name
    path.write_bytes(path.read_bytes().replace(before, after))
    with pytest.raises(DataInvalid, match=f"this line {problem}"):
        compute_metrics(folder)
    with pytest.raises((DataInvalid, RunConflict)):
        await run(tmp_path)


@pytest.mark.parametrize("killed", [True, False])
async def test_the_run_file_of_another_run_is_refused(tmp_path: Path, killed: bool) -> None:
    folder, other = await run(tmp_path), await run(tmp_path, "other", seed=5)
    if killed:
        kill(folder)
    folder.config.write_bytes(other.config.read_bytes())
    with pytest.raises(StoreFailed, match=r"config\.yaml was changed"):
        compute_metrics(folder)
    for seed in (0, 5):
        with pytest.raises((RunConflict, StoreFailed)):
            await run(tmp_path, seed=seed)


@pytest.mark.parametrize("killed", [True, False])
async def test_judges_of_another_run_are_refused(tmp_path: Path, killed: bool) -> None:
    folder, before = await run(tmp_path), compute_metrics(RunFolder(tmp_path, "run"))
    judge = {**JUDGED["judges"][0], "votes": 3}
    other = await run(tmp_path, "other", judges=[judge])
    if killed:
        kill(folder)
    (folder.path / "judges.json").write_bytes((other.path / "judges.json").read_bytes())
    for read in (compute_metrics, lambda folder: read_attempts(folder.attempts)):
        with pytest.raises(StoreFailed, match=r"judges\.json was changed"):
            read(folder)
    await run(tmp_path)
    assert compute_metrics(folder) == before


async def test_metrics_of_another_run_are_computed_again(tmp_path: Path) -> None:
    folder, other = await run(tmp_path), await run(tmp_path, "other", judges=[])
    before = compute_metrics(folder)
    assert read_metrics(folder, folder.read_manifest()) == before
    folder.metrics.write_bytes(other.metrics.read_bytes().replace(b"other", b"run"))
    metrics = read_metrics(folder, folder.read_manifest())
    assert metrics is not None
    assert metrics.overall == before.overall


async def test_deleted_metrics_are_computed_again(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    before = compute_metrics(folder)
    folder.metrics.unlink()
    metrics = read_metrics(folder, folder.read_manifest())
    assert metrics is not None
    assert metrics.overall == before.overall
    assert not loss(folder)


async def test_lost_attempts_stay_known_if_the_next_session_does_not_repeat_them(
    tmp_path: Path,
) -> None:
    folder = await run(tmp_path, limit=2)
    folder.attempts.unlink()
    await run(tmp_path, limit=1)
    assert "a part of the file is lost" in loss(folder)
    assert not compute_metrics(folder).complete
    await run(tmp_path, limit=2)
    assert not loss(folder)
    assert compute_metrics(folder).complete


async def test_changed_aggregates_are_refused(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    (folder.path / "aggregates.json").write_text("{}")
    with pytest.raises(StoreFailed, match=r"aggregates\.json was changed"):
        compute_metrics(folder)


def later_sample(line: bytes) -> bytes:
    attempt = json.loads(line)
    del attempt["run"]
    return json.dumps(attempt | {"sample": attempt["sample"] + 3}).encode() + b"\n"


async def test_copies_in_the_place_of_samples_are_noticed(tmp_path: Path) -> None:
    """A version without seals made the run."""
    folder = await run(tmp_path)
    manifest = folder.read_manifest()
    folder.manifest.write_text(json.dumps(manifest | {"sealed": False, "files": {}}))
    _, *others = lines(folder.attempts)
    folder.attempts.write_bytes(b"".join([later_sample(others[-1]), *others]))
    assert not loss(folder)
    await run(tmp_path)  # repeats the first sample
    assert "has 1 sample too many" in loss(folder)
    folder.attempts.unlink()
    await run(tmp_path)
    assert not loss(folder)
    assert len(lines(folder.attempts)) == len(others) + 1


@pytest.mark.parametrize("name", ["attempts.jsonl", "judgements.jsonl"])
async def test_an_appended_line_is_noticed(tmp_path: Path, name: str) -> None:
    folder = await run(tmp_path)
    path = folder.path / name
    line = json.loads(lines(path)[0])
    del line["run"]
    appended = json.dumps(line | {"ended_at": 0.0}).encode() + b"\n"
    path.write_bytes(path.read_bytes() + folder.line_sealer()(appended))
    assert f"{name} was changed after the run's last session" in loss(folder)
    with pytest.raises(RunConflict, match="was changed after the run's last session"):
        await run(tmp_path)


@pytest.mark.parametrize("name", ["attempts.jsonl", "judgements.jsonl"])
async def test_copies_of_lines_are_reported_and_removed(tmp_path: Path, name: str) -> None:
    folder = await run(tmp_path)
    before = (folder.path / name).read_bytes()
    first, *_, last = lines(folder.path / name)
    (folder.path / name).write_bytes(first + before + last)
    assert loss(folder) == f"run: {name} has 2 lines twice."
    await run(tmp_path)
    assert (folder.path / name).read_bytes() == before
    assert not loss(folder)


async def test_a_run_without_a_number_of_samples_is_not_complete(tmp_path: Path) -> None:
    folder = await run(tmp_path)
    manifest = folder.read_manifest()
    del manifest["samples"]
    folder.manifest.write_text(json.dumps(manifest))
    assert not compute_metrics(folder).complete


async def test_a_smaller_limit_leaves_a_run_that_judges_decide_complete(tmp_path: Path) -> None:
    judge = {"name": "yes_no", "model": {"backend": "simulated", "accuracy": 0.7}}
    task = WORDS | {"checks": [{"judge": "yes_no", "criteria": "Is it one word?"}]}
    changes = {"task": task, "judges": [judge], "rounds": {"max": 2}}
    for limit in (6, 1):
        folder = await run(tmp_path, limit=limit, **changes)
        assert folder.read_manifest()["owed"] == 0
        assert compute_metrics(folder).complete
