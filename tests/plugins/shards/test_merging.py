"""Runs in shards: disjoint parts of the instances, with parts of the limits, and their merging."""

import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.config.loading import expand_variants
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.plan import CachedInstances, run_instances
from harness.engine.preparation import prepare
from harness.errors import ConfigError, DataInvalid, DataMissing, RunConflict
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.shards.merging import find_shards, merge
from harness.store.run_folder import RunFolder
from harness.store.runs import all_runs, shard_base_name
from tests.conftest import Sums, run_file

JUDGED = {
    "task": {"name": "last_letter", "n": 2},
    "model": {"backend": "simulated", "name": "m", "accuracy": 0.5},
    "judges": [{"name": "ai_parser", "model": {"backend": "simulated", "accuracy": 0.9}}],
    "rounds": {"max": 2},
    "samples": 3,
}
LATER = ("started_at", "ended_at", "latency_s", "run")


def settings(folder: Path) -> Settings:
    return Settings(**dict.fromkeys(("runs_dir", "cache_dir", "data_dir"), folder))


async def run(folder: Path, shard: str | None = None, **changes: Any) -> RunFolder:
    run = RunFile.model_validate({**JUDGED, "shard": shard, **changes})
    name = shard_base_name("run", run.parsed_shard) if run.parsed_shard else "run"
    job = prepare(run, name, settings(folder))
    await execute(job)
    return job.folder


def read(folder: RunFolder, file: str) -> dict[str, Mapping[str, Any]]:
    text = (folder.path / file).read_text().splitlines()
    found = [{k: v for k, v in json.loads(line).items() if k not in LATER} for line in text]
    return {
        json.dumps([one["instance"], one["sample"], one["round"], one.get("judge")]): one
        for one in found
    }


def merged(folder: Path) -> RunFolder:
    ((variant, shards),) = find_shards(folder, "run").items()
    assert not variant
    return merge(shards, "run", settings(folder))


@pytest.mark.parametrize("of", [1, 2, 7, 100])
@pytest.mark.parametrize("limit", [None, 30])
def test_every_instance_is_in_one_shard(of: int, limit: int | None) -> None:
    data = CachedInstances(Sums())
    whole = [one.id for one in run_instances(run_file(limit=limit), data)]
    shards = [
        [one.id for one in run_instances(run_file(limit=limit, shard=f"{n + 1}/{of}"), data)]
        for n in range(of)
    ]
    assert sorted(name for shard in shards for name in shard) == sorted(whole)


async def test_a_merged_run_is_the_run_that_was_never_split(tmp_path: Path) -> None:
    for number in range(3):
        await run(tmp_path / "split", f"{number + 1}/3")
    found, whole = merged(tmp_path / "split"), await run(tmp_path / "whole")
    for file in ("attempts.jsonl", "judgements.jsonl"):
        assert read(found, file) == read(whole, file)
    metrics = [json.loads(one.metrics.read_bytes()) for one in (found, whole)]
    for name in (
        "overall",
        "n_unanswerable",
        "rounds",
        "outcomes",
        "n_attempts",
        "n_clusters",
        "complete",
    ):
        assert metrics[0][name] == metrics[1][name]
    assert metrics[0]["run"] == "run"
    before = found.attempts.read_bytes()
    await run(tmp_path / "split")  # nothing is left to do
    assert found.attempts.read_bytes() == before


async def test_shards_that_do_not_belong_together_are_not_merged(tmp_path: Path) -> None:
    await run(tmp_path, "1/2")
    with pytest.raises(DataMissing, match="run-2of2"):
        find_shards(tmp_path, "run")
    other = await run(tmp_path, "2/2", seed=1)
    with pytest.raises(RunConflict, match="they differ in seed"):
        merged(tmp_path)
    other.remove()
    await run(tmp_path, "2/2", samples=4)
    with pytest.raises(RunConflict, match="they differ in samples"):
        merged(tmp_path)
    await run(tmp_path, "1/2", samples=4)
    with RunFolder(tmp_path, "run-1of2").lock(), pytest.raises(RunConflict, match="Another"):
        merged(tmp_path)
    assert merged(tmp_path).has_attempts()
    with pytest.raises(RunConflict, match="already a run 'run'"):
        merged(tmp_path)


async def test_an_unfinished_shard_is_not_merged(tmp_path: Path) -> None:
    await run(tmp_path, "1/2")
    unfinished = await run(tmp_path, "2/2")
    manifest = unfinished.read_manifest()
    unfinished.manifest.write_text(json.dumps(manifest | {"owed": 1}))
    with pytest.raises(RunConflict, match="'run-2of2' is unfinished"):
        merged(tmp_path)
    assert [one.name for one in all_runs(tmp_path)] == ["run-1of2", "run-2of2"]


def emptied(folder: RunFolder) -> None:
    folder.attempts.write_bytes(b"")


def cut(folder: RunFolder) -> None:
    content = folder.attempts.read_bytes()
    folder.attempts.write_bytes(content[: len(content) // 2])


def without_last_line(folder: RunFolder) -> None:
    """Its last round, or an answer's last sample, is lost."""
    folder.attempts.write_bytes(b"".join(folder.attempts.read_bytes().splitlines(True)[:-1]))


def missing(folder: RunFolder) -> None:
    folder.attempts.unlink()


def copied(folder: RunFolder) -> None:
    """The attempts of the other shard are in its place."""
    shutil.copy(folder.path.parent / "run-1of2" / "attempts.jsonl", folder.attempts)


def as_earlier(folder: RunFolder) -> None:
    """A version made the run that did not record the states of its files, and no tags of lines."""
    manifest = folder.read_manifest()
    del manifest["files"], manifest["sealed"]
    folder.manifest.write_text(json.dumps(manifest))
    lines = map(json.loads, folder.attempts.read_text().splitlines())
    untagged = [json.dumps({key: line[key] for key in line if key != "run"}) for line in lines]
    folder.attempts.write_text("".join(f"{line}\n" for line in untagged))


@pytest.mark.parametrize("damage", [emptied, cut, without_last_line, missing, copied])
@pytest.mark.parametrize("earlier", [False, True])
async def test_lost_attempts_are_not_merged(
    tmp_path: Path, damage: Callable[[RunFolder], None], earlier: bool
) -> None:
    await run(tmp_path, "1/2", rounds={"max": 1})
    folder = await run(tmp_path, "2/2", rounds={"max": 1})
    if earlier:
        as_earlier(folder)
    assert read_run(folder)[0].metrics.complete
    damage(folder)
    if damage is not copied:
        variant, _ = read_run(folder)
        assert not variant.metrics.complete
        assert "INCOMPLETE" in variant.marks[-1] or "NO ATTEMPTS" in variant.marks
    with pytest.raises((RunConflict, DataInvalid), match=r"lacks at least|is from another run"):
        merged(tmp_path)
    assert not RunFolder(tmp_path, "run").exists()
    if damage is copied:
        with pytest.raises((RunConflict, DataInvalid)):
            await run(tmp_path, "2/2", rounds={"max": 1})
        return
    await run(tmp_path, "2/2", rounds={"max": 1})
    assert read_run(folder)[0].metrics.complete
    assert read_run(merged(tmp_path))[0].metrics.complete


async def test_an_interrupted_merge_leaves_no_run(tmp_path: Path) -> None:
    for number in range(2):
        await run(tmp_path, f"{number + 1}/2")
    names = [one.name for one in all_runs(tmp_path)]
    script = (
        "import os; from pathlib import Path; from harness.plugins.shards import merging;"
        "merging.compute_metrics = lambda _: os._exit(9);"
        "from harness.config.settings import Settings;"
        f"folder = Path({str(tmp_path)!r});"
        "settings = Settings(runs_dir=folder, cache_dir=folder, data_dir=folder);"
        "[shards] = merging.find_shards(folder, 'run').values();"
        "merging.merge(shards, 'run', settings)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await process.wait() == 9
    assert [one.name for one in all_runs(tmp_path)] == names
    assert merged(tmp_path).read_manifest()["run"] == "run"


async def test_a_merge_writes_through_no_link(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for number in range(2):
        await run(root, f"{number + 1}/2")
    own = tmp_path / "run"
    own.mkdir()
    (own / "config.yaml").write_text("mine")
    (root / ".merge-run").symlink_to(tmp_path, target_is_directory=True)
    assert merged(root).read_manifest()["run"] == "run"
    assert (own / "config.yaml").read_text() == "mine"


async def test_shards_with_different_verdicts_on_a_sample_are_not_merged(tmp_path: Path) -> None:
    first = await run(tmp_path, "1/2", rounds={"max": 1})
    folder = await run(tmp_path, "2/2", rounds={"max": 1})
    line = json.loads(first.attempts.read_text().splitlines()[-1])
    line["passed"] = not line["passed"]
    del line["run"]
    as_earlier(folder)
    lines = [*folder.attempts.read_text().splitlines()[:-1], json.dumps(line), ""]
    folder.attempts.write_text("\n".join(lines))
    with pytest.raises(RunConflict, match="have the same sample, with different verdicts"):
        merged(tmp_path)


async def test_judged_references_of_a_shard_are_not_dropped(tmp_path: Path) -> None:
    for number in range(2):
        await run(tmp_path, f"{number + 1}/2")
    (tmp_path / "run-2of2" / "gold").mkdir()
    with pytest.raises(RunConflict, match="'run-2of2' has judged reference answers"):
        merged(tmp_path)


def test_shards_share_the_rate_limits_and_the_budget(tmp_path: Path) -> None:
    stated = {"limits": {"rpm": 10, "output_tpm": 9_000}, "budget": {"usd": 6.0}}
    runs = [RunFile.model_validate({**JUDGED, **stated, "shard": f"{n + 1}/4"}) for n in range(4)]
    jobs = [prepare(one, "run", settings(tmp_path)) for one in runs]
    assert [job.model.limits.rpm for job in jobs] == [3, 3, 2, 2]
    assert [job.model.limits.output_tpm for job in jobs] == [2_250] * 4
    assert [one.budget_usd for one in runs] == [1.5] * 4
    few = RunFile.model_validate({**JUDGED, **stated, "shard": "1/11"})
    with pytest.raises(ConfigError, match=r"limits\.rpm is 10, which 11 shards cannot share"):
        prepare(few, "run", settings(tmp_path))


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "a/b", "1/20000", "-1/2"])
def test_a_shard_that_cannot_be_is_refused(shard: str) -> None:
    with pytest.raises(ConfigError, match="is not a shard: write NUMBER/COUNT"):
        expand_variants({**JUDGED, "shard": shard}, "run.yaml", [], {})
