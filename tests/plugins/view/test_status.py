"""What a session says of itself while it works, and that it can be asked to stop."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import SessionResult, execute
from harness.engine.preparation import prepare
from harness.plugins.mock.server import MockServer
from harness.plugins.view.status import (
    SILENT_S,
    STOP,
    RunStatus,
    read_status,
    request_stop,
    stop_requested,
    write_status,
)
from harness.store.index import AttemptIndex
from tests.rows import WORDS


def settings(folder: Path) -> Settings:
    return Settings(**dict.fromkeys(("runs_dir", "cache_dir", "data_dir"), folder))


def run_file(url: str, **changes: Any) -> dict[str, Any]:
    model = {"backend": "openai", "name": "m", "base_url": url, "api_key_env": None}
    return {
        "task": WORDS,
        "limit": 2,
        "model": model,
        "samples": 40,
        "limits": {"concurrency": 2, "attempts": 9},
        **changes,
    }


@contextlib.asynccontextmanager
async def running(
    folder: Path, run: Mapping[str, Any]
) -> AsyncIterator[asyncio.Task[SessionResult]]:
    """A run at work, which has written its status at least once."""
    job = prepare(RunFile.model_validate(run), "run", settings(folder))
    task = asyncio.create_task(execute(job))
    while (status := read_status(folder / "run")) is None or status.ended:
        assert not task.done(), task.result()
        await asyncio.sleep(0.01)
    yield task
    await task


async def test_a_session_reports_its_progress(tmp_path: Path) -> None:
    with MockServer(latency=0.05) as server:
        async with running(tmp_path, run_file(server.base_url)) as task:
            status = read_status(tmp_path / "run")
            while status is not None and not status.traffic[-1].in_flight:
                await asyncio.sleep(0.05)
                status = read_status(tmp_path / "run")
            assert status is not None
            assert status.works()
            assert status.planned > status.done
            assert 0 < status.traffic[-1].in_flight <= 2
            result = await task
    ended = read_status(tmp_path / "run")
    assert ended is not None
    assert not ended.works()
    assert ended.ended == "finished"
    assert ended.done == ended.planned == result.metrics.n_samples
    assert ended.attempts == result.metrics.n_attempts
    assert (ended.judged, ended.traffic[-1].in_flight) == (result.metrics.overall.n, 0)
    assert [one.calls for one in ended.traffic] == sorted(one.calls for one in ended.traffic)
    assert ended.traffic[-1].calls == ended.calls == result.metrics.n_calls


async def test_failed_tries_are_counted(tmp_path: Path) -> None:
    faults = {"429": 0.2}
    with MockServer(faults=faults, retry_after=0, seed=1) as server:
        async with running(tmp_path, run_file(server.base_url)):
            pass
        refused = server.stats().by_fault["429"]
    status = read_status(tmp_path / "run")
    assert status is not None
    assert status.traffic[-1].failed == status.traffic[-1].rate_limited == refused > 0


async def test_a_session_that_is_asked_to_stop_finishes_its_calls(tmp_path: Path) -> None:
    with MockServer(latency=0.05) as server:
        async with running(tmp_path, run_file(server.base_url)) as task:
            assert request_stop(tmp_path / "run")
            result = await task
        answered = server.stats().answered
    assert result.ending == "interrupted"
    assert not (tmp_path / "run" / STOP).exists()
    assert len(AttemptIndex(tmp_path / "run" / "attempts.jsonl")) == answered  # nothing is lost
    status = read_status(tmp_path / "run")
    assert status is not None
    assert status.ended == "interrupted"
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["sessions"][-1]["ended"] == "interrupted"


@pytest.mark.parametrize("session", ["an earlier session", None])
async def test_a_request_to_another_session_is_ignored(tmp_path: Path, session: str | None) -> None:
    (tmp_path / "run").mkdir()
    text = "not JSON" if session is None else json.dumps({"session": session})
    (tmp_path / "run" / STOP).write_text(text)
    with MockServer() as server:
        async with running(tmp_path, run_file(server.base_url, samples=2)) as task:
            assert (await task).ending == "finished"


def test_a_run_that_is_not_at_work_cannot_be_stopped(tmp_path: Path) -> None:
    assert not request_stop(tmp_path)
    write_status(tmp_path, RunStatus("s", 0.0, 0.0))  # killed long ago
    assert not request_stop(tmp_path)
    status = read_status(tmp_path)
    assert status is not None
    assert status.works(SILENT_S - 1)
    write_status(tmp_path, RunStatus("s", 0.0, 1e12, ended="finished"))
    assert not request_stop(tmp_path)
    write_status(tmp_path, RunStatus("s", 0.0, 1e12))  # no session writes in the future
    assert not request_stop(tmp_path)
    assert not (tmp_path / STOP).exists()


def test_a_request_is_not_written_through_a_link(tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    folder.mkdir()
    other.write_text("old")
    (folder / STOP).symlink_to(other)
    write_status(folder, RunStatus("s", 0.0, time.time()))
    assert request_stop(folder)
    assert stop_requested(folder, "s")
    assert other.read_text() == "old"


def test_a_folder_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    write_status(tmp_path / "missing", RunStatus("s", 0.0, 0.0))
    assert read_status(tmp_path / "missing") is None
