"""`harness run` on several machines that share a database, which are killed, as it is."""

import os
import random
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from harness.records import Reply
from tests.cli.command import Begun, begun, harness, mistake, words
from tests.cli.test_run import GPT4, attempts, timeless
from tests.postgres import PASSWORD, Postgres

MACHINES, CONCURRENCY = 6, 20


def start(folder: Path, url: str, *options: str) -> Begun:
    """Begin the run on a machine: a process with folders of its own."""
    own = {"HARNESS_CACHE_DIR": str(folder / "cache"), "HARNESS_RUNS_DIR": str(folder / "runs")}
    return begun(*GPT4, *options, env=os.environ | own | {"HARNESS_CACHE_URL": url})


def shared_digests(postgres: Postgres, url: str) -> set[str]:
    """Of the bodies whose replies the team has: the mock server puts them into its texts."""
    rows = postgres.execute("SELECT reply FROM harness.replies", url.rpartition("/")[2])
    texts = [msgspec.msgpack.decode(row[0], type=Reply).text for row in rows]  # type: ignore[arg-type]
    return {text.split()[4].partition("-")[0] for text in texts}


@pytest.mark.parametrize(
    ("kills", "restarts", "samples"),
    [
        (4, 1, 1),
        pytest.param(30, 3, 8, marks=[pytest.mark.exhaustive, pytest.mark.timeout(900)]),
    ],
)
def test_a_team_pays_once_in_spite_of_kill_9_and_restarts_of_the_database(
    kills: int, restarts: int, samples: int, postgres: Postgres, tmp_path: Path
) -> None:
    chance, saved = random.Random(0), dict[str, int]()
    (url,) = postgres.database("acme")
    with MockServer(latency=0.15) as server:

        def ask_again(number: int) -> Begun:
            return start(tmp_path / str(number), url, *options)

        options = (
            "-o", f"model.base_url={server.base_url}", "-o", "rounds.max=2",
            "-o", f"samples={samples}", "-o", f"limits.concurrency={CONCURRENCY}",
        )  # fmt: skip
        processes = [ask_again(number) for number in range(MACHINES)]
        working = 0
        for kill in range(kills):
            answered = server.stats().answered
            end = time.monotonic() + 60
            while server.stats().answered < answered + 15 and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(chance.random() / 10)
            killed = processes[number := chance.randrange(MACHINES)]
            working += killed.poll() is None
            killed.kill()
            killed.communicate()
            if kill % (kills // restarts) == kills // restarts - 1:
                postgres.stop()
                time.sleep(chance.uniform(0.2, 2))
                postgres.start()
            processes[number] = ask_again(number)
            known = shared_digests(postgres, url)
            asked = server.bodies()
            saved = {digest: asked[digest].requests for digest in known} | saved
        for process in processes:
            assert not process.communicate(timeout=600)[1].count("Traceback")
            assert process.returncode == 0
        asked = server.bodies()
        for digest, count in saved.items():
            assert asked[digest].requests == count, "paid for again, though the team had the reply"
        assert shared_digests(postgres, url) == asked.keys(), "a reply was lost"
        assert working >= kills * 0.8

    repeated = sum(count.requests - 1 for count in asked.values())
    found = [attempts(tmp_path / str(number) / "runs", "gpt4") for number in range(MACHINES)]
    assert all(timeless(one) == timeless(found[0]) for one in found)
    payers = Counter(
        attempt["call_id"] for one in found for attempt in one.values() if not attempt["cached"]
    )
    print(
        f"{MACHINES} machines, {working} of {kills} kills while working, {restarts} restarts: "
        f"{len(asked)} calls, {len(found[0])} attempts on each machine; asked again because they "
        f"were in flight at a kill: {repeated}; paid for by no machine: "
        f"{len({one['call_id'] for one in found[0].values()} - payers.keys())}, by two: "
        f"{sum(count > 1 for count in payers.values())}"
    )
    assert repeated <= kills * CONCURRENCY
    assert payers.keys() == {attempt["call_id"] for attempt in found[0].values()}


def test_the_shared_cache_is_named_and_checked(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (url,) = postgres.database("acme")
    monkeypatch.setenv("HARNESS_CACHE_URL", url)
    where = url.partition("@")[2]
    ended = harness("cache", "stats")
    assert ended.returncode == 0, ended.stderr
    stats = words(ended.stdout)
    assert f"team acme in {where}" in stats
    assert "its replies 0" in stats
    assert harness("run", "configs/quickstart.yaml").returncode == 0
    doctor = harness("doctor")
    assert doctor.returncode == 0
    assert f"{where} answers; 0 replies of the team acme" in words(doctor.stdout)
    postgres.stop()
    for ended in (harness("doctor"), harness("cache", "stats")):
        assert ended.returncode == 1
        assert "cannot be reached" in words(ended.stdout + ended.stderr)
        assert PASSWORD not in ended.stdout + ended.stderr
    assert harness("doctor", "--no-network").returncode == 0


def test_the_url_is_in_no_file_of_a_run(postgres: Postgres, tmp_path: Path) -> None:
    (url,) = postgres.database("acme")
    with MockServer() as server:
        options = ("-o", f"model.base_url={server.base_url}", "--limit", "13")
        process = start(tmp_path, url, *options)
        said = process.communicate()
    assert process.returncode == 0, said
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = [*said, *(file.read_bytes().decode("latin-1") for file in files)]
    assert len(texts) > 5
    assert not any(PASSWORD in text for text in texts)
    leaky = harness(
        *GPT4,
        "-o",
        f"model.base_url={url}",
        "--dry-run",
        env=os.environ | {"HARNESS_CACHE_URL": url},
    )
    assert "contains the value of HARNESS_CACHE_URL, a secret" in words(mistake(leaky))


def test_a_shared_budget_needs_the_teams_database(tmp_path: Path, mock_server: MockServer) -> None:
    keys = {
        "model.base_url": mock_server.base_url,
        "model.price": "{input: 1, output: 1}",
        "budget": "{usd: 5, shared: spring}",
    }
    options = [word for key, value in keys.items() for word in ("-o", f"{key}={value}")]
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    planned = harness(*GPT4, *options, "--shard", "1/2", "--dry-run", env=environment)
    assert "$5.00, shared with the team as 'spring'" in words(planned.stdout)
    refused = harness(*GPT4, *options, env=environment)
    assert "budget.shared is set, but HARNESS_CACHE_URL is not" in words(mistake(refused))
    assert not list(tmp_path.iterdir())
