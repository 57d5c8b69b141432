"""`harness run` as its users run it: a process, a real server, interruptions."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from harness.records import Reply
from tests.cli.command import COMMAND, ROOT, begun, harness, is_complete, mistake
from tests.installed import has_backend, has_run_step
from tests.rows import GPT4_FILE, QUICKSTART, TASK

GPT4 = ("run", GPT4_FILE)

STRUCTURES = {
    "word01", "word02", "word03", "sent01", "sent02", "sent03", "sent04",
    "para01", "para02", "para03", "para04", "para05", "pass01",
}  # fmt: skip


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


def attempts(runs: Path, name: str) -> dict[tuple[str, int, int], dict[str, Any]]:
    lines = (runs / name / "attempts.jsonl").read_bytes().splitlines()
    found = [msgspec.json.decode(line) for line in lines]
    return {(a["instance"], a["sample"], a["round"]): a for a in found}


def timeless(found: dict[tuple[str, int, int], dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Attempts without what depends on when and whether a reply was there already."""
    volatile = {"run", "started_at", "ended_at", "latency_s", "cached"}
    return {
        name: {key: value for key, value in attempt.items() if key not in volatile}
        for name, attempt in found.items()
    }


def metrics(runs: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((runs / name / "metrics.json").read_bytes())
    return found


def test_a_run_without_a_call_says_that_its_replies_come_from_the_cache(runs: Path) -> None:
    with MockServer() as server:
        url = f"model.base_url={server.base_url}"
        words = (*GPT4, "-o", url, "--limit", "2", "--fresh", "-o")
        said = "come from the cache: the calls were made by other runs."
        first, again = (harness(*words, "samples=1") for _ in range(2))
        assert first.returncode == again.returncode == 0
        assert said not in first.stdout
        assert said in " ".join(again.stdout.split())
        assert said not in " ".join(harness(*words, "samples=2").stdout.split())


def test_a_finished_run_needs_no_key(runs: Path, tmp_path: Path) -> None:
    with MockServer() as server:
        judge = {"backend": "openai", "name": "j", "base_url": server.base_url}
        judge["api_key_env"] = "JUDGE_KEY"
        task = {"rows": [{"prompt": "1?", "checks": [{"judge": "fit", "criteria": ["Is it?"]}]}]}
        judges = [{"name": "yes_no", "as": "fit", "model": judge}]
        file = tmp_path / "one.yaml"
        urls = {"openai": server.base_url, "anthropic": server.url}
        for backend, url in urls.items():
            if not has_backend(f"backend: {backend}"):
                continue
            model = {**judge, "backend": backend, "base_url": url, "api_key_env": "MODEL_KEY"}
            tree = {"task": task, "model": model, "judges": judges, "decoding": {"max_tokens": 9}}
            file.write_text(json.dumps(tree))
            words = ("run", file, "--name", backend)
            assert "MODEL_KEY is not set" in mistake(harness(*words))
            keys = {"MODEL_KEY": "secret-1", "JUDGE_KEY": "secret-2"}
            first = harness(*words, env=os.environ | keys)
            assert first.returncode == 0, first.stderr
            again = harness(*words)
            assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
            more = ("-o", "samples=2")
            assert "MODEL_KEY is not set" in mistake(harness(*words, *more))
            only = os.environ | {"MODEL_KEY": "secret-1"}
            assert "JUDGE_KEY is not set" in mistake(harness(*words, *more, env=only))


def test_quickstart_ends_with_a_table_per_structure(runs: Path) -> None:
    ended = harness("run", QUICKSTART)
    assert ended.returncode == 0, ended.stderr
    assert all(structure in ended.stdout for structure in STRUCTURES)
    assert "SIMULATED" in ended.stdout
    manifest = msgspec.json.decode((runs / "quickstart" / "manifest.json").read_bytes())
    assert manifest["simulated"] is True
    assert manifest["sessions"][0]["ended"] == "finished"
    assert manifest["resumed"] == 0
    # A finished run is not done again.
    before = (runs / "quickstart" / "attempts.jsonl").read_bytes()
    assert harness("run", QUICKSTART).returncode == 0
    assert (runs / "quickstart" / "attempts.jsonl").read_bytes() == before


def test_gpt4_against_a_server(runs: Path) -> None:
    with MockServer() as server:
        ended = harness(*GPT4, "--limit", "13", "-o", f"model.base_url={server.base_url}")
        seen = server.stats()
    assert ended.returncode == 0, ended.stderr
    found = metrics(runs, "gpt4")
    assert found["n_instances"] == 13
    assert found["n_attempts"] == 260
    assert list(found["pass_at_k"]) == [str(k) for k in range(1, 21)]
    assert found["usage"]["input_tokens"] == seen.prompt_tokens > 0
    assert found["usage"]["output_tokens"] == seen.completion_tokens > 0
    assert seen.requests == seen.unique_bodies == found["n_calls"], "each call once"
    groups = Counter(a["groups"]["structure"] for a in attempts(runs, "gpt4").values())
    assert set(groups) == STRUCTURES


def test_feedback_rounds_against_a_server(runs: Path) -> None:
    with MockServer() as server:
        ended = harness(
            *GPT4, "--limit", "13", "-o", "samples=1", "-o", "rounds.max=4",
            "-o", f"model.base_url={server.base_url}",
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    rounds = Counter(name[2] for name in attempts(runs, "gpt4"))
    assert rounds[1] == 13
    assert rounds[2] == rounds[3] == rounds[4] > 0


def test_the_sdk_does_not_retry_and_the_harness_does(runs: Path) -> None:
    faults = {"429": 0.1, "500": 0.1, "reset": 0.02}
    with MockServer(faults=faults, retry_after=None) as server:
        ended = harness(*GPT4, "--limit", "10", "-o", f"model.base_url={server.base_url}")
        seen = server.stats()
    assert ended.returncode == 0, ended.stderr
    assert metrics(runs, "gpt4")["outcomes"]["ok"] == 200
    assert seen.requests == 200 + sum(seen.by_fault.values())
    assert seen.repeated == 0


def test_failed_calls_are_shown_and_tried_again_by_the_next_run(runs: Path) -> None:
    with MockServer(faults={"400": 0.2}) as server:
        command = (*GPT4, "-o", f"model.base_url={server.base_url}", "-o", "samples=1")
        ended = harness(*command)
        assert ended.returncode == 1
        failed = metrics(runs, "gpt4")["outcomes"]["error"]
        assert f"{failed} attempts failed" in ended.stderr
        assert f"{failed} x RequestRejected: " in ended.stderr
        overall = metrics(runs, "gpt4")["overall"]
        assert overall["not_judged"] == failed > 0
        assert overall["pass_rate_errors_as_failures"] is not None
        assert overall["pass_rate_errors_as_failures"] <= overall["pass_rate"]
        answered = server.stats().answered
        server.change(faults={})
        assert harness(*command).returncode == 0
        assert server.stats().answered == answered + failed
        assert metrics(runs, "gpt4")["outcomes"] == {
            "ok": 130, "truncated": 0, "refused": 0, "empty": 0, "unparseable": 0, "error": 0,
        }  # fmt: skip
    with MockServer() as server:
        changed = (*GPT4, "-o", f"model.base_url={server.base_url}", "-o", "samples=1")
        assert "model.base_url" in harness(*changed).stderr  # another server is another model


def test_ctrl_c_finishes_what_is_in_flight_and_says_how_to_go_on(runs: Path) -> None:
    with MockServer(latency=0.3) as server:
        command = (
            *GPT4, "-o", f"model.base_url={server.base_url}", "-o", "limits.concurrency=20"
        )  # fmt: skip
        process = begun(*command)
        wait_for_lines(runs / "gpt4" / "attempts.jsonl", 20)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "To continue: harness run tests/fixtures/gpt4.yaml" in said
        seen = server.stats()
        calls = {attempt["call_id"] for attempt in attempts(runs, "gpt4").values()}
        assert len(calls) == seen.answered == seen.requests
        manifest = msgspec.json.decode((runs / "gpt4" / "manifest.json").read_bytes())
        assert manifest["sessions"][-1]["ended"] == "interrupted"
        assert metrics(runs, "gpt4")["n_calls"] == seen.answered


def test_ctrl_c_stops_a_run_that_never_waits(runs: Path) -> None:
    """A simulated run is all computing: signals must have their turn all the same."""
    process = begun("run", QUICKSTART, "-o", "samples=100")
    wait_for_lines(runs / "quickstart" / "attempts.jsonl", 100)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    found = metrics(runs, "quickstart")
    assert found["n_samples"] < 130 * 100
    assert found["complete"] is False
    assert found["n_planned"] == 130 * 100
    assert not is_complete("quickstart")
    assert "of 13,000" in harness("ls").stdout


def test_a_corrected_mistake_is_no_other_run(runs: Path) -> None:
    with MockServer(models=["gpt-4"]) as server:
        command = (*GPT4, "--limit", "13", "-o", "samples=1", "-o")
        url = f"model.base_url={server.base_url}"
        assert harness(*command, url, "-o", "model.name=gtp-4").returncode == 1
        assert harness(*command, url).returncode == 0


def test_ctrl_c_twice_stops_now(runs: Path) -> None:
    with MockServer(faults={"stall": 1.0}) as server:
        process = begun(*GPT4, "-o", f"model.base_url={server.base_url}")
        try:
            wait_until(lambda: server.stats().in_flight >= 16)
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            assert process.poll() is None, "the calls in flight are waited for"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "To continue: " in said


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def wait_for_lines(path: Path, number: int) -> None:
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= number)


@pytest.mark.parametrize(
    ("kills", "samples"), [(2, 2), pytest.param(10, 8, marks=pytest.mark.exhaustive)]
)
def test_kill_9_loses_no_reply_and_pays_none_twice(
    kills: int, samples: int, runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kills at random moments of 250 calls per sample, then the same run undisturbed."""
    chance = random.Random(0)
    with MockServer(latency=0.01) as server:
        command = (
            *GPT4, "-o", f"model.base_url={server.base_url}", "-o", "rounds.max=2",
            "-o", f"samples={samples}", "-o", "limits.concurrency=25",
        )  # fmt: skip
        file = runs / "gpt4" / "attempts.jsonl"
        recorded: dict[str, int] = {}
        for kill in range(kills):
            process = begun(*command)
            wait_for_lines(file, 200 * kill + chance.randrange(1, 180))
            time.sleep(chance.random() / 20)
            process.kill()
            process.communicate()
            asked = server.bodies()
            for digest, count in recorded.items():
                assert asked[digest].requests == count, "asked for again"
            recorded = {digest: asked[digest].requests for digest in digests()}
            assert harness("ls").returncode == 0
        assert harness(*command).returncode == 0
        asked = server.bodies()
        assert len(recorded) > 100 * kills
        for digest, count in recorded.items():
            assert asked[digest].requests == count, "asked for again"
        # Lost with each kill: what was on the way, and what had come but was not committed yet.
        lost = sum(count.requests - 1 for count in asked.values())
        assert lost <= kills * (25 + 25)
        killed = timeless(attempts(runs, "gpt4"))
        lines = file.read_bytes().splitlines()
        assert len(lines) == len(killed), "no attempt twice"

        monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "other"))
        assert harness(*command, "--name", "undisturbed").returncode == 0
        assert killed == timeless(attempts(runs, "undisturbed"))


def digests() -> set[str]:
    """Of the bodies whose replies are in the cache: the server puts them into its texts."""
    cache = Path(os.environ["HARNESS_CACHE_DIR"]) / "replies.sqlite"
    with contextlib.closing(sqlite3.connect(cache)) as file:
        rows = file.execute("SELECT reply FROM replies").fetchall()
    texts = [msgspec.msgpack.decode(row[0], type=Reply).text for row in rows]
    return {text.split()[4].partition("-")[0] for text in texts}


def test_variants_are_runs_of_their_own(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(
        TASK + "model: {backend: simulated}\nlimit: 13\n"
        "variants: {once: {}, thrice: {rounds.max: 3}}\n"
    )
    assert harness("run", file).returncode == 0
    assert list(metrics(runs, "both.once")["rounds"]["each"]) == ["1"]
    assert list(metrics(runs, "both.thrice")["rounds"]["each"]) == ["1", "2", "3"]
    listed = harness("ls").stdout
    assert "both.once" in listed
    assert "both.thrice" in listed


def test_variants_do_not_take_the_name_of_another_run(runs: Path) -> None:
    single = ("run", QUICKSTART, "--limit", "3", "--name", "one")
    assert harness(*single).returncode == 0
    both = (*single, "-o", "variants={once: {}, thrice: {rounds.max: 3}}")
    refused = harness(*both)
    assert refused.returncode == 1
    assert "There is a run named 'one'" in refused.stderr
    assert not list(runs.glob("one.*"))
    if has_run_step("dry_run"):
        planned = harness(*both, "--dry-run")
        assert planned.returncode == 0, planned.stderr


def test_ctrl_c_with_nothing_left_of_a_variant_begins_no_other(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "three.yaml"
    with MockServer(latency=2.0) as server:
        model = f"{{backend: openai, name: m, api_key_env: KEY, base_url: {server.base_url!r}}}"
        file.write_text(
            TASK + f"model: {model}\nlimit: 13\n"
            "variants: {a: {}, b: {seed: 1}, c: {seed: 2}}\n"
        )
        process = begun("run", file, env=os.environ | {"KEY": "x"})
        deadline = time.monotonic() + 30
        while server.stats().requests < 13 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert "To continue: harness run" in said
        assert server.stats().requests == 13
    assert not (runs / "three.b" / "attempts.jsonl").exists()


def test_a_variant_whose_server_is_unreachable_ends_no_other(runs: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    file = tmp_path / "three.yaml"
    dead = f"{{backend: openai, name: m, api_key_env: KEY, base_url: {url!r}}}"
    file.write_text(
        TASK + "model: {backend: simulated}\nlimit: 13\n"
        f"variants: {{a: {{}}, dead: {{model: {dead}}}, c: {{seed: 2}}}}\n"
    )
    ended = harness("run", file, env=os.environ | {"KEY": "x"})
    assert ended.returncode == 1
    failure = r"three.dead failed: All calls have failed for \d+ s. Last error: Cannot reach "
    assert re.search(failure + re.escape(url), ended.stderr)
    again = f"harness run {file}"
    assert f"1 of 3 runs failed: three.dead. To continue only the unfinished runs: {again}" in (
        ended.stderr
    )
    assert ended.stderr.count(again) == 1
    assert [line.split()[0] for line in ended.stdout.splitlines()[2:]] == ["a", "c"]
    assert len(attempts(runs, "three.c")) == 13


def test_no_file_of_a_run_holds_a_secret(runs: Path) -> None:
    with MockServer(api_key="sk-very-secret") as server:
        ended = harness(
            *GPT4, "--limit", "5", "-o", f"model.base_url={server.base_url}",
            "-o", "model.api_key_env=MY_KEY", env=os.environ | {"MY_KEY": "sk-very-secret"},
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    written = [path for path in runs.parent.rglob("*") if path.is_file()]
    cache = [path for path in Path(os.environ["HARNESS_CACHE_DIR"]).rglob("*") if path.is_file()]
    assert len(written) >= 4
    assert cache
    assert not any(b"sk-very-secret" in path.read_bytes() for path in written + cache)
    assert "sk-very-secret" not in ended.stdout + ended.stderr


def test_a_run_that_grew_and_was_killed_is_not_complete(runs: Path) -> None:
    command = ("run", QUICKSTART, "-o", "model.latency_s=0.05", "-o", "samples=1")
    assert harness(*command, "--limit", "13").returncode == 0
    assert is_complete("quickstart")
    process = begun(*command)
    wait_for_lines(runs / "quickstart" / "attempts.jsonl", 40)
    process.kill()
    process.communicate()
    assert not is_complete("quickstart")
    assert "of 130" in harness("ls").stdout
    assert harness(*command).returncode == 0
    assert metrics(runs, "quickstart")["complete"] is True


def test_where_the_progress_goes_does_not_decide_how_a_run_ends(runs: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [*COMMAND, "run", QUICKSTART],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=full, check=False,
        )  # fmt: skip
    assert metrics(runs, "quickstart")["complete"] is True
    assert b"word01" in process.stdout


REASONS = """
from harness.plugin import Backend
from harness.records import Reply

class Application(Backend):
    features = frozenset({"max_tokens"})
    endpoint = "app"
    cacheable = False

    async def generate(self, request):
        number = int(request.messages[0].content[0])
        return Reply("a", ["stop", "weather", "length"][number])
"""


def test_answers_with_a_finish_reason_are_retried(runs: Path, tmp_path: Path) -> None:
    rows, app, file = (tmp_path / name for name in ("rows.jsonl", "app.py", "r.yaml"))
    app.write_text(REASONS)
    rows.write_text("".join(f'{{"question": "{n}?", "target": "a"}}\n' for n in range(3)))
    file.write_text(
        f"task: {{name: jsonl, path: {rows}, prompt: '{{{{ question }}}}', checks: [contains]}}\n"
        f"model: {{backend: {app}}}\n"
    )
    for retried, lines in (([], 3), ([], 3), (["--retry", "weather"], 4), (["--retry", "ok"], 4)):
        ended = harness("run", file, *retried)
        assert ended.returncode == (1 if "ok" in retried else 0), ended.stderr
        attempts = (runs / "r" / "attempts.jsonl").read_text().splitlines()
        assert len(attempts) == lines
    assert json.loads(attempts[-1])["finish_reason"] == "weather"
    assert "there is no outcome 'ok'" in ended.stderr
