"""Batches of which several machines of a team know."""

import time
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.test_run import GPT4, wait_until
from tests.plugins.team.test_runs import start
from tests.postgres import Postgres

pytest.importorskip("harness.plugins.batches")
from tests.plugins.batches.test_runs import command


@pytest.mark.parametrize("other", ["{poll_s: 0.1}", "null"], ids=["in_batches", "live"])
def test_the_calls_of_a_batch_are_not_made_by_another_machine(
    other: str, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-openai")
    (url,) = postgres.database("acme")
    with MockServer(batch_latency=3) as server:
        submitting = [*command(server, samples=1), "--detach"][len(GPT4) :]
        submitted = start(tmp_path / "first", url, *submitting)
        submitted.communicate()
        assert submitted.returncode == 4
        waiting = start(
            tmp_path / "second", url, *command(server, batch=other, samples=1)[len(GPT4) :]
        )
        alive = "SELECT count(*) FROM harness.owners WHERE expires > now()"
        wait_until(lambda: postgres.execute(alive, url.rpartition("/")[2]) == [(1,)])
        time.sleep(2)  # it has looked for all calls by now
        assert waiting.poll() is None
        collecting = start(tmp_path / "first", url, *submitting[:-1])
        for process in (collecting, waiting):
            said = process.communicate()
            assert process.returncode == 0, said
        assert server.stats().batches == 1
        assert {count.requests for count in server.bodies().values()} == {1}
        assert server.stats().answered == 130
