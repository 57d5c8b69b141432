"""A run that two machines of a team work on, one after the other."""

import json
from pathlib import Path

import pytest

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import RunConflict
from harness.plugins.mock.server import MockServer
from harness.plugins.team.layer import TeamReplyCache
from harness.records import content_hash
from harness.store.run_folder import RunFolder
from tests.postgres import Postgres

pytest.importorskip("harness.plugins.remote_runs")


async def test_one_machine_at_a_time_works_on_a_run(
    postgres: Postgres,
    mock_server: MockServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    (url,) = postgres.database("acme")
    copies = f"file://{tmp_path}/store"

    def settings(machine: str) -> Settings:
        folder = tmp_path / machine
        return Settings(
            runs_dir=folder / "runs",
            cache_dir=folder / "cache",
            data_dir=folder,
            cache_url=url,
            runs_url=copies,
        )

    async def work(machine: str, limit: int) -> RunFolder:
        run = {
            "task": {"name": "last_letter", "n": 2},
            "model": {"backend": "openai", "name": "gpt-4", "base_url": mock_server.base_url},
            "limit": limit,
        }
        job = prepare(RunFile.model_validate(run), "run", settings(machine))
        await execute(job)
        return job.folder

    await work("one", 4)
    lease = content_hash(["run", copies, "run"])
    with TeamReplyCache(tmp_path / "third.sqlite", url) as other:
        assert other.shared is not None
        assert await other.shared.claim_shared(lease)
        with pytest.raises(RunConflict, match="Another machine is working on the run 'run'"):
            await work("two", 8)
        other.release(lease)
    second = await work("two", 8)
    first = await work("one", 8)
    assert first.attempts.read_bytes() == second.attempts.read_bytes()
    asked = [json.loads(line)["call_id"] for line in first.attempts.read_text().splitlines()]
    assert len(set(asked)) == mock_server.stats().requests
