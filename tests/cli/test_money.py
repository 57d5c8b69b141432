"""What a run may cost, whatever happens to it: real kills, signals and servers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from bisect import bisect
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from harness.report.text import format_usd
from tests.cli.command import COMMAND, NO_BYTECODE, ROOT, begun, harness, mistake
from tests.cli.test_run import GPT4, attempts, metrics, runs, wait_until
from tests.installed import has_verb

__all__ = ["runs"]

EXHAUSTIVE = [pytest.mark.exhaustive, pytest.mark.timeout(900)]
CALL_USD = 0.05
"""The most that a call of these runs may cost, which is what the server bills for each request."""


def command(server: MockServer | str, usd: float | None = 2.0, **options: object) -> list[str]:
    """A run of many prompts whose calls cost at most `CALL_USD`."""
    url = server if isinstance(server, str) else server.base_url
    given = {
        "model.base_url": url, "budget.usd": usd, "decoding.max_tokens": 50,
        "model.price.input": 0, "model.price.output": 1000, "samples": 4,
    } | options  # fmt: skip
    values = (f"{key}={'null' if value is None else value}" for key, value in given.items())
    return [*GPT4, *(word for value in values for word in ("-o", value))]


def started(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start ``harness …`` as a new program: `begun` forks one that has already started."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, **streams, **options)


def cache_folder() -> Path:
    return Path(os.environ["HARNESS_CACHE_DIR"])


def wait_for_a_pause(server: MockServer, process: subprocess.Popen[str]) -> None:
    """Wait until a process sends no more calls, or has ended."""
    seen, since = server.stats().requests, time.monotonic()
    while process.poll() is None:
        requests, now = server.stats().requests, time.monotonic()
        if requests > seen:
            seen, since = requests, now
        elif now - since > (1.0 if server.stats().in_flight else 30.0):
            return
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("kills", "deleted"),
    [
        (3, "nothing"),
        pytest.param(50, "nothing", marks=EXHAUSTIVE),
        pytest.param(4, "cache", marks=EXHAUSTIVE),
        pytest.param(4, "run", marks=EXHAUSTIVE),
    ],
)
def test_the_cap_holds_in_spite_of_kill_9(runs: Path, kills: int, deleted: str) -> None:
    with MockServer(latency=60) as server:
        for kill in range(kills):
            process = begun(*command(server))
            wait_for_a_pause(server, process)
            process.kill()
            said = process.communicate()[1]
            if deleted != "nothing" and kill % 2 == 0:
                shutil.rmtree(cache_folder() if deleted == "cache" else runs)
        billed = CALL_USD * server.stats().requests
        assert billed <= 2.0 + 1e-9
        assert billed >= 0.8, "the first session could spend"
        if deleted == "nothing":
            ended = harness(*command(server))
            assert ended.returncode == 3, said
            assert "of it for calls without a recorded cost (failed, " in ended.stderr


def test_a_session_that_ends_releases_what_it_has_not_used(runs: Path) -> None:
    with MockServer(latency=0.02, answers=lambda *_: "one two three") as server:
        ended = harness(*command(server))
        assert ended.returncode == 3
        assert "may be billed" not in ended.stderr
        used = metrics(runs, "gpt4")["known_cost_usd"]
        assert used > 2.0 - CALL_USD - 0.001, "all but the last call's maximum"
        shutil.rmtree(cache_folder())
        before = server.stats().requests
        assert harness(*command(server)).returncode == 3
        assert server.stats().requests == before, "the folder knows what is spent"


def test_the_variants_that_a_spent_budget_leaves_out_are_named(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "quality.yaml"
    with MockServer() as server:
        document = {
            "task": {
                "rows": [{"prompt": "a"}, {"prompt": "b"}],
                "checks": [{"word_count": {"at_least": 1}}],
            },
            "model": {
                "backend": "openai",
                "name": "m",
                "base_url": server.base_url,
                "price": {"input": 0, "output": 1000},
            },
            "decoding": {"max_tokens": 50},
            "budget": {"usd": 4 * CALL_USD},
            "variants": {name: {"seed": place} for place, name in enumerate("abcd")},
        }
        file.write_text(json.dumps(document))
        ended = harness("run", file, "--yes")
        assert ended.returncode == 3, ended.stderr
        not_run = [name for name in "abcd" if not (runs / f"quality.{name}").exists()]
        assert not_run
        names = ", ".join(f"quality.{name}" for name in not_run)
        assert f"Not run: {names}." in ended.stderr


def test_what_is_paid_is_told_for_the_session_and_for_the_run(runs: Path) -> None:
    with MockServer() as server:
        words = command(server, None, samples=1)
        first = harness(*words, "--limit", "2")
        assert first.returncode == 0, first.stderr
        once = metrics(runs, "gpt4")["paid_usd"]
        assert f"paid {format_usd(once)}, outcomes" in first.stderr
        second = harness(*words, "--limit", "4")
    paid = metrics(runs, "gpt4")["paid_usd"]
    assert (
        f"paid {format_usd(paid - once)} in this session, {format_usd(paid)} in all"
        in second.stderr
    )
    if has_verb("view"):  # which records the state of running sessions
        status = json.loads((runs / "gpt4/status.json").read_text())
        assert status["cost_usd"] == pytest.approx(paid)
    assert metrics(runs, "gpt4")["cost_usd"] == paid
    assert format_usd(paid) in harness("ls").stdout


def test_the_command_that_continues_a_fresh_run(runs: Path) -> None:
    with MockServer() as server:
        words = command(server, 0.01, samples=1)
        for earlier in (0, 1):
            ended = harness(*words, "--limit", "2", "--fresh", "--name", "mine")
            assert ended.returncode == 3, ended.stderr
            again = next(one for one in ended.stderr.splitlines() if "to continue:" in one)
            assert again.endswith("--limit 2 --name mine")
            assert " -o budget.usd=… " in again, "not the budget that is spent"
            assert len([*runs.glob("mine-20*")]) == earlier


def test_small_amounts_are_not_rounded_to_zero(runs: Path) -> None:
    with MockServer() as server:
        few = {"budget.usd": "0.000002", "model.price.output": 0.1}
        ended = harness(*command(server, **few))
    said = "The budget of $0.0000020 cannot pay for the next call, which may cost $0.0000050"
    assert said in ended.stderr


def test_a_fresh_run_has_the_whole_budget(runs: Path) -> None:
    with MockServer(latency=0.02, answers=lambda *_: "one two three") as server:
        words = command(server)
        assert harness(*words).returncode == 3
        before = server.stats().requests
        again = harness(*words, "-o", "seed=7", "--fresh")  # no reply is cached
        assert again.returncode == 3
        assert server.stats().requests > before
        (kept,) = runs.glob("gpt4-20*")
        assert f"The earlier run is kept as {kept.name}" in again.stderr


def test_deleting_the_run_and_then_the_cache_does_not_reset_the_budget(runs: Path) -> None:
    with MockServer(answers=lambda *_: "one two three") as server:
        assert harness(*command(server)).returncode == 3
        requests = server.stats().requests
        for folder in (runs / "gpt4", cache_folder(), runs / "gpt4", cache_folder()):
            shutil.rmtree(folder)
            ended = harness(*command(server, seed=7))  # no reply is cached
            assert ended.returncode == 3, ended.stderr
            assert "or of a deleted run" in ended.stderr
        assert server.stats().requests == requests


def test_deleting_the_cache_and_then_the_run_does_not_reset_it_either(runs: Path) -> None:
    with MockServer(answers=lambda *_: "one two three") as server:
        assert harness(*command(server)).returncode == 3
        requests = server.stats().requests
        for folder in (cache_folder(), runs / "gpt4", cache_folder(), runs / "gpt4"):
            shutil.rmtree(folder)
            ended = harness(*command(server))
            assert ended.returncode == 3, ended.stderr
        assert server.stats().requests == requests


def test_a_closed_terminal_ends_a_run_like_sigterm(runs: Path) -> None:
    with MockServer(latency=0.5) as server:
        process = started(
            *command(server, usd=100.0),  # more than it spends before the signal
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # even under nohup
        )
        wait_until(lambda: server.stats().in_flight >= 16)
        process.send_signal(signal.SIGHUP)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130, said
        assert "To continue" in said
        assert len(attempts(runs, "gpt4")) == server.stats().requests


def test_a_run_that_ignores_sighup_as_under_nohup_goes_on(runs: Path) -> None:
    with MockServer(latency=0.5) as server:
        process = started(
            *command(server, usd=1.0),
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )
        wait_until(lambda: server.stats().in_flight >= 16)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
        assert process.returncode == 3, "it has spent its budget"


def test_what_was_paid_before_a_kill_is_counted_as_paid(runs: Path) -> None:
    """Replies that were committed, and whose attempts were not written."""
    few = {"samples": 1, "limits.concurrency": 16}
    with MockServer(latency=0.2) as server:
        process = begun(*command(server, usd=None, **few))
        file = runs / "gpt4" / "attempts.jsonl"
        wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 32)
        process.kill()
        process.communicate()
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:10]))  # as if it had been killed before the others
        assert harness(*command(server, usd=None, **few)).returncode == 0
        found, asked = metrics(runs, "gpt4"), server.stats()
        assert found["paid_usd"] == pytest.approx(found["known_cost_usd"])
        assert found["n_calls"] == asked.unique_bodies
        assert harness(*command(server, usd=None, **few), "--name", "second").returncode == 0
        assert server.stats().requests == asked.requests
        assert metrics(runs, "second")["paid_usd"] == 0, "another run takes them from the cache"


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies a file to the folder of what would survive a power cut, as of each fsync. */
static void keep(int fd) {
    char link[64], path[PATH_MAX], kept[PATH_MAX], half[PATH_MAX], buffer[65536];
    const char *to = getenv("SHIM_KEPT");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1), got;
    if (!to || n < 0) return;
    path[n] = 0;
    if (!strstr(path, "replies.sqlite") && !strstr(path, ".jsonl")) return;
    snprintf(kept, sizeof kept, "%s/%s", to, strrchr(path, '/') + 1);
    snprintf(half, sizeof half, "%s/half-%d", to, fd);
    int from = open(path, O_RDONLY), out = open(half, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    while (from >= 0 && out >= 0 && (got = read(from, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, got) != got) abort();
    close(from);
    close(out);
    rename(half, kept);
}
int fsync(int fd) { keep(fd); return 0; }
int fdatasync(int fd) { keep(fd); return 0; }
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_no_committed_reply_is_paid_again_after_a_power_cut(runs: Path, tmp_path: Path) -> None:
    """The files as they were at their last fsync: what a machine finds when power is back."""
    kept, library = tmp_path / "kept", tmp_path / "shim.so"
    kept.mkdir()
    source = tmp_path / "shim.c"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    few = {"samples": 1, "limits.concurrency": 16, "budget.usd": None}
    with MockServer(latency=0.1) as server:
        environment = os.environ | {"LD_PRELOAD": str(library), "SHIM_KEPT": str(kept)}
        process = started(*command(server, **few), env=environment)
        file = runs / "gpt4" / "attempts.jsonl"
        wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 60)
        process.kill()
        process.communicate()
        asked = server.bodies()
        recorded = {a["text"] for a in attempts(runs, "gpt4").values()}
        for part in cache_folder().glob("replies.sqlite*"):
            part.unlink()
            if (kept / part.name).exists():  # a deleted journal stays deleted
                shutil.copy(kept / part.name, part)
        shutil.rmtree(runs)
        with contextlib.closing(sqlite3.connect(cache_folder() / "replies.sqlite")) as database:
            replies = [row[0] for row in database.execute("SELECT reply FROM replies")]
        assert sum(any(text.encode() in reply for reply in replies) for text in recorded) == len(
            recorded
        ), "what has an attempt was committed"
        assert harness(*command(server, **few)).returncode == 0
        twice = sum(count.requests - 1 for count in server.bodies().values())
        assert twice <= len(asked) - len(recorded), "only calls in flight are made again"


@contextlib.contextmanager
def arrivals(answer: dict[str, Any], delay: float = 0.0) -> Iterator[tuple[str, list[float]]]:
    """A server that gives one answer, and notes when it was asked."""
    times: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            times.append(time.monotonic())
            self.rfile.read(int(self.headers["content-length"]))
            time.sleep(delay)
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the run cancels calls in flight
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100  # so that every connection is accepted at once

        def handle_error(self, *_: object) -> None:
            """Print nothing if a call is cancelled: the command's output is read."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", times
        server.shutdown()


def completion(text: str, read: int, written: int) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {"id": "x", "object": "chat.completion", "model": "gpt-4", "choices": [choice],
            "created": 1, "usage": usage}  # fmt: skip


def most_in(seconds: float, times: list[float]) -> int:
    ordered = sorted(times)
    return max(bisect(ordered, at + seconds) - index for index, at in enumerate(ordered))


@pytest.mark.parametrize(
    ("rpm", "restarts", "seconds"),
    [(60, 2, 8), pytest.param(600, 40, 150, marks=EXHAUSTIVE)],
)
def test_processes_and_restarts_share_a_rate_limit(
    runs: Path, rpm: int, restarts: int, seconds: int
) -> None:
    with arrivals(completion("yes", 10, 1)) as (url, times):
        shared = command(url, usd=None, samples=60, **{"limits.rpm": rpm})
        one = begun(*shared, "--name", "one")
        wait_until(lambda: bool(times))
        begun_at = time.monotonic()
        for number in range(restarts):
            before, end = len(times), time.monotonic() + seconds / restarts
            two = begun(*shared, "--name", "two", "-o", f"seed={number}", "--fresh")
            time.sleep(max(0.0, end - time.monotonic()))
            two.kill()
            two.communicate()
            # A kill between booking a call and sending it leaves one call of the minute unused.
            assert len(times) > before or most_in(60, times) >= rpm - number - 1
        one.kill()
        one.communicate()
        passed_s = time.monotonic() - begun_at
    burst, rate = rpm / 60 * 5, rpm / 60
    assert most_in(60, times) <= rpm
    assert len(times) <= 2 * burst + rate * passed_s  # unshared, each process has its own burst
    if seconds > 60:
        assert most_in(60, times) >= 0.85 * rpm


def test_a_suspended_process_holds_up_others_only_for_its_calls_in_flight(runs: Path) -> None:
    same = {"samples": 1, "limits.concurrency": 8}
    with MockServer(latency=0.2) as server:
        slow = begun(*command(server, usd=None, **same), "--name", "slow")
        wait_until(lambda: server.stats().requests >= 8)
        slow.send_signal(signal.SIGSTOP)
        try:
            file = runs / "quick" / "attempts.jsonl"
            quick = begun(*command(server, usd=None, **same), "--name", "quick")
            # All but its last 32 workers' worth of prompts, of which at most 8 are claimed.
            wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 100)
            quick.kill()
            quick.communicate()
        finally:
            slow.send_signal(signal.SIGCONT)
            slow.kill()
            slow.communicate()


def test_a_full_disk_is_met_before_the_first_call(runs: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: writing past it fails in the same way."""

    def limited() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))

    with MockServer() as server:
        for _ in range(2):
            ended = subprocess.run(
                [*COMMAND, *command(server)], preexec_fn=limited, capture_output=True,
                text=True, check=False, cwd=ROOT, env=os.environ | NO_BYTECODE,
            )  # fmt: skip
            assert "Cannot write the cache" in mistake(ended)
        assert server.stats().requests == 0


def test_a_cache_that_is_deleted_during_a_run_ends_it_and_loses_no_reply(runs: Path) -> None:
    with MockServer(latency=0.2) as server:
        process = begun(*command(server, usd=None, **{"limits.concurrency": 16}))
        wait_until(lambda: server.stats().answered >= 32)
        for part in cache_folder().glob("replies.sqlite*"):
            part.unlink()
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 1
        assert "was deleted or replaced during the run" in said
        assert "Traceback" not in said
        assert len(attempts(runs, "gpt4")) == server.stats().answered


def test_a_text_with_a_usage_of_zero_is_unsure_and_not_free(runs: Path) -> None:
    with arrivals(completion("some text", 0, 0)) as (url, times):
        ended = harness(*command(url))
        assert ended.returncode == 3, ended.stderr
        assert "$2.0000 of it for calls without a recorded cost (failed, " in ended.stderr
        assert len(times) == 40
    assert {a.get("cost_usd") for a in attempts(runs, "gpt4").values()} == {None}


def test_usage_above_the_maximum_ends_the_run(runs: Path) -> None:
    with arrivals(completion("some text", 10, 5000), delay=0.3) as (url, times):
        ended = harness(*command(url, usd=1000))
        assert "The provider counts 10 input and 5,000 output tokens" in mistake(ended)
        assert len(times) <= 40
    answered = len(attempts(runs, "gpt4"))
    assert 0 < answered <= len(times)
    found = msgspec.json.decode((runs / "gpt4" / "spending.json").read_bytes())
    assert found["usd"] == pytest.approx(5 * answered + CALL_USD * (len(times) - answered))


def test_after_a_reply_above_its_maximum_nothing_is_sent_and_calls_are_cancelled(
    runs: Path,
) -> None:
    """Each call takes a minute, but one reports a million tokens at once."""
    with MockServer(latency=60) as server:
        process = begun(*command(server, usd=1000.0))
        wait_until(lambda: server.stats().in_flight >= 16)
        server.change(latency=0, faults={"usage_huge": 1})
        wait_until(lambda: bool(server.stats().answered))
        said = " ".join(process.communicate(timeout=60)[1].split())
        stats = server.stats()
    assert process.returncode == 1
    assert "1,000,000 output tokens" in said
    assert "The budget cannot be kept" in said
    assert stats.abandoned >= 16
    assert stats.answered < 10
    # A call that is cancelled may have been answered at the same moment.
    assert 1000 <= metrics(runs, "gpt4")["paid_usd"] <= 1000 * stats.answered


@pytest.mark.parametrize("removal", ["harness rm", "rm -r"])
@pytest.mark.parametrize("names", [("b",), ("b", "c")])
def test_what_a_renamed_and_deleted_run_has_spent_still_counts(
    runs: Path, names: tuple[str, ...], removal: str
) -> None:
    with MockServer(latency=0.02, answers=lambda *_: "one two three") as server:
        words = command(server, 0.5, seed="null")
        assert harness(*words, "--name", "a").returncode == 3
        earlier = "a"
        for name in names:
            assert harness("mv", earlier, name).returncode == 0
            earlier = name
        if removal == "rm -r":
            shutil.rmtree(runs / earlier)
        else:
            assert harness("rm", earlier, "--yes").returncode == 0
        assert harness("cache", "prune", "--all", "--yes").returncode == 0
        before = server.stats().requests
        assert harness(*words, "--name", earlier).returncode == 3
        assert server.stats().requests == before
        assert harness(*words, "--name", earlier).returncode == 3
        assert server.stats().requests == before, "a later session knows it, too"
        assert "by 1 run with a budget" in harness("cache", "stats").stdout
        assert harness(*words, "--fresh", "--name", earlier).returncode == 3
        assert server.stats().requests > before, "--fresh starts from zero"


def test_what_a_fresh_run_has_spent_counts_after_its_folder_is_deleted(runs: Path) -> None:
    with MockServer(latency=0.02, answers=lambda *_: "one two three") as server:
        words = [*command(server, 0.5, seed="null"), "--name", "a"]
        assert harness(*command(server, 0.1, seed="null"), "--name", "a").returncode == 3
        assert harness(*words, "--fresh").returncode == 3
        shutil.rmtree(runs / "a")
        assert harness("cache", "prune", "--all", "--yes").returncode == 0
        before = server.stats().requests
        assert harness(*words).returncode == 3
        assert server.stats().requests == before


def test_a_folder_that_was_renamed_by_hand_is_followed(runs: Path) -> None:
    with MockServer(latency=0.02, answers=lambda *_: "one two three") as server:
        words = command(server, 0.5, seed="null")
        assert harness(*words, "--name", "a").returncode == 3
        (runs / "a").rename(runs / "b")
        assert harness("rm", "b", "--yes").returncode == 0
        assert harness("cache", "prune", "--all", "--yes").returncode == 0
        before = server.stats().requests
        assert harness(*words, "--name", "b").returncode == 3
        assert server.stats().requests == before


@pytest.mark.parametrize("lost", ["nothing", "folders", "cache"])
def test_the_shards_of_a_run_and_the_whole_run_share_its_budget(runs: Path, lost: str) -> None:
    with MockServer(latency=0.02, answers=lambda *_: "one two three") as server:
        words = [*command(server, 0.8, seed="null", **{"limits.concurrency": 2}), "--name", "p"]
        shards = ("1/2", "2/2", "1/3", "2/3", "3/3", "2/2")
        for shard in (*(("--shard", shard) for shard in shards), ()):
            ended = harness(*words, *shard)
            assert ended.returncode == 3, ended.stderr
            if shard == ("--shard", "2/2"):
                assert server.stats().completion_tokens > 600, "each has its part of the budget"
            if lost == "folders":
                shutil.rmtree(runs)
            elif lost == "cache":
                assert harness("cache", "prune", "--all", "--yes").returncode == 0
                shutil.rmtree(cache_folder())
        assert server.stats().completion_tokens * 1000 / 1e6 <= 0.8
        if lost != "folders":  # otherwise there is no run to start again
            assert harness(*words, "--fresh").returncode == 3
            assert server.stats().completion_tokens > 1300, "--fresh starts from zero"


def test_what_was_spent_on_shards_counts_once_after_they_are_merged(runs: Path) -> None:
    with MockServer(latency=0.02, answers=lambda *_: "one two three") as server:
        words = [*command(server, 4.0, seed="null", samples=1, limit=20), "--name", "p"]
        for shard in ("1/2", "2/2"):
            ended = harness(*words, "--shard", shard)
            assert ended.returncode == 0, ended.stderr
        assert harness("merge", "p").returncode == 0
        paid = server.stats().completion_tokens * 1000 / 1e6
        # Twice of what is spent is enough for as many calls again, and not for more.
        more = [*words, "-o", f"budget.usd={2 * paid + CALL_USD}", "-o", "samples=4"]
        assert harness(*more).returncode == 3
        assert 1.8 * paid <= server.stats().completion_tokens * 1000 / 1e6 <= 2 * paid + CALL_USD
        shutil.rmtree(cache_folder())
        before = server.stats().requests
        assert harness(*more).returncode == 3
        assert server.stats().requests <= before + 1
