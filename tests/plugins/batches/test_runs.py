"""Runs in batches: real kills, two processes on one cache, budgets, and what the command says."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.faults import draw
from harness.plugins.mock.server import MockServer
from harness.report.text import format_usd
from tests.cli.command import Begun, begun, harness, mistake
from tests.cli.test_faulty_prompts import N, Run, answer
from tests.cli.test_run import GPT4, attempts, metrics, runs, wait_until

__all__ = ["runs"]

EXHAUSTIVE = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
BATCHING = "{poll_s: 0.1, search_s: 0.5}"
PRICES = {"input": 0, "output": 1000, "batch_input": 0, "batch_output": 500}
CALL_USD = 0.02
"""The most that a call of these runs may cost in a batch. Alone it costs twice as much."""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "AZURE_OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", f"a-key-for-{name}")


PROTOCOLS = ["openai", "anthropic", "gemini", "mistral", "together"]


def command(
    server: MockServer, provider: str = "openai", batch: str = BATCHING, **more: object
) -> list[str]:
    """A run whose calls may each cost at most `CALL_USD` in a batch. Some answers are longer.

    ``provider`` is a backend, or a preset of the backend openai.
    """
    backend = provider if provider in ("openai", "anthropic", "gemini") else "openai"
    paths = {"anthropic": "", "gemini": "/v1beta"}
    given: dict[str, object] = {
        "model.backend": backend,
        "model.base_url": server.url + paths.get(provider, "/v1"),
        "decoding.max_tokens": 40,
        "limits.batch": batch,
        **{f"model.price.{name}": price for name, price in PRICES.items()},
    }
    if backend != provider:
        given["model.preset"] = provider
    if backend == "anthropic":
        given["decoding.temperature"] = "null"
    return [*GPT4, *(w for k, v in (given | more).items() for w in ("-o", f"{k}={v}"))]


def comparable(runs: Path, name: str) -> dict[Any, dict[str, Any]]:
    """Attempts without times, costs, and which of those that share a call was first."""
    volatile = {"run", "started_at", "ended_at", "latency_s", "cached", "cost_usd"}
    return {
        place: {key: value for key, value in attempt.items() if key not in volatile}
        for place, attempt in attempts(runs, name).items()
    }


def kill_some(server: MockServer, arguments: list[str], kills: int, longest_s: float) -> None:
    """Begin a run again and again, and kill it: at random, or when something has happened."""
    draw = random.Random(kills)

    def watched() -> tuple[int, ...]:
        stats = server.stats()
        return stats.batches, stats.open_batches, stats.answered

    for _ in range(kills):
        process, before, began = begun(*arguments), watched(), time.monotonic()
        seconds = draw.uniform(0.2, longest_s)
        on_change = draw.random() < 0.5
        while process.poll() is None and time.monotonic() - began < seconds:
            if on_change and watched() != before:
                time.sleep(draw.choice((0, 0, 0.01, 0.1)))
                break
            time.sleep(0.001)
        ended_well = process.poll() is not None
        process.kill()
        said = process.communicate()[1]
        if ended_well:
            assert process.returncode in (0, 1, 3), said


def finish(process: Begun) -> str:
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 0, said
    return said


def faults(provider: str) -> dict[str, Any]:
    """What goes wrong. Anthropic has no files whose deletion prevents that a batch comes late."""
    batch = {"lost_id": 0.2, "late": 0.1, "poll_500": 0.1, "expired": 0.1, "duplicated": 0.05}
    if provider == "anthropic":
        batch["late"] = 0.0
    latency = "uniform:0.05:0.6"
    return {"faults": {"500": 0.03, "429": 0.02}, "batch_faults": batch, "batch_latency": latency}


def sizes(kills: int) -> list[Any]:
    """One protocol quickly, and three with 10,010 requests and 50 kills. Mistral's and Together's
    are OpenAI's but for their form, and have 1,300 requests and 20 kills."""
    small = [(PROTOCOLS[0], 2, kills)]
    large = [(name, 77, 50) for name in PROTOCOLS[:3]] + [(name, 10, 20) for name in PROTOCOLS[3:]]
    return [*small, *(pytest.param(*one, marks=EXHAUSTIVE) for one in large)]


@pytest.mark.parametrize(("provider", "samples", "kills"), sizes(5))
def test_kill_9_at_any_moment_costs_nothing_twice(
    runs: Path, provider: str, samples: int, kills: int
) -> None:
    with MockServer(**faults(provider), seed=samples) as server:
        calls = 130 * samples
        cap: dict[str, Any] = {
            "budget.usd": CALL_USD * calls,
            "samples": samples,
        }  # enough, if nothing is lost
        arguments = [*command(server, provider, **cap), "--name", "batched"]
        kill_some(server, arguments, kills, longest_s=2.5 + samples / 10)
        finish(begun(*arguments))
        stats = server.stats()
        found = attempts(runs, "batched")
        assert len(found) == calls
        assert {attempt["outcome"] for attempt in found.values()} <= {"ok", "truncated"}
        paid = [one for one in found.values() if not one["cached"]]
        assert len({one["call_id"] for one in found.values()}) == len(paid) == stats.answered
        spent = metrics(runs, "batched")["paid_usd"]
        assert spent == pytest.approx(stats.completion_tokens * 500 / 1e6)
        assert spent <= cap["budget.usd"] + 1e-9
        server.change(faults={})
        live = [*command(server, provider, batch="null", samples=samples), "--name", "live"]
        assert harness(*live, env=another_cache(runs)).returncode == 0
    assert comparable(runs, "batched") == comparable(runs, "live")


SLOW: dict[str, Any] = {"batch_latency": 3600}


def test_a_detached_run_continues_with_the_same_command(runs: Path) -> None:
    with MockServer(**SLOW) as server:
        arguments = [*command(server, samples=2), "--detach"]
        for _ in range(2):
            left = harness(*arguments)
            assert left.returncode == 4, left.stderr
            assert "260 samples wait for batches" in left.stderr
            assert f"To see if they have ended, and to continue: harness {arguments[0]}" in (
                left.stderr
            )
        assert server.stats().batches == 1
        listed = json.loads(harness("batches", "--format", "json").stdout)
        assert [(one["status"], one["requests"]) for one in listed] == [("in progress", 260)]
        server.change(batch_latency=0)
        assert harness("batches", "cancel", listed[0]["id"]).returncode == 0
        ended = harness(*arguments)
        while ended.returncode == 4:
            ended = harness(*arguments)
        assert ended.returncode == 0, ended.stderr
        assert server.stats().answered == len(attempts(runs, "gpt4")) == 260
        again = mistake(harness("batches", "cancel", listed[0]["id"]))
        assert "has ended: cancelled" in again
        wide = os.environ | {"COLUMNS": "200"}
        first, *_ = harness("batches", env=wide).stdout.splitlines()
        assert first.split() == [
            "id",
            "provider",
            "model",
            "state",
            "requests",
            "done",
            "failed",
            "age",
            "cost",
        ]


def test_a_batch_that_is_cancelled_meanwhile_ends_the_run(runs: Path) -> None:
    with MockServer(**SLOW) as server:
        arguments = command(server, samples=1)
        process = begun(*arguments)
        wait_until(lambda: bool(server.stats().batches))
        wait_until(lambda: '"batch_' in harness("batches", "--format", "json").stdout)
        (batch,) = json.loads(harness("batches", "--format", "json").stdout)
        assert harness("batches", "cancel", batch["id"]).returncode == 0
        said = process.communicate()[1]
        assert "requests have no answer. Run again to submit them" in " ".join(said.split())
        server.change(batch_latency=0)
        assert harness(*arguments).returncode == 0
        assert server.stats().answered == 130


def test_stragglers_are_finished_live_and_paid_for_once(runs: Path) -> None:
    with MockServer(batch_latency=10) as server:
        mixed = command(server, batch="{after: 0.5s, then: live, poll_s: 0.1}", samples=1)
        ended = harness(*mixed)
        assert ended.returncode == 0, ended.stderr
        stats = server.stats()
        assert stats.answered == 130
        assert 0 < stats.batch_answered < 130
        assert stats.batches == 1
        found = attempts(runs, "gpt4").values()
        by_batch = [one for one in found if one["latency_s"] is None]
        assert len(by_batch) == stats.batch_answered
        for one in found:
            usd = 1000 if one["latency_s"] is not None else 500
            assert one["cost_usd"] == pytest.approx(one["usage"]["output_tokens"] * usd / 1e6)


def test_a_live_run_does_not_pay_for_what_a_batch_is_making(runs: Path) -> None:
    with MockServer(batch_latency=2) as server:
        assert harness(*command(server, samples=1), "--detach").returncode == 4
        ended = harness(*command(server, batch="null", samples=2))
        assert ended.returncode == 0, ended.stderr
        stats = server.stats()
        assert (stats.answered, stats.batch_answered) == (260, 130)


def test_the_enqueued_tokens_of_the_account_are_respected(runs: Path) -> None:
    with MockServer(enqueued_tokens=600) as server:
        ended = harness(*command(server, samples=1))
        assert ended.returncode == 0, ended.stderr
        stats = server.stats()
        assert stats.answered == 130
        assert stats.batches > 2
        assert metrics(runs, "gpt4")["n_calls"] == 130


def test_rounds_of_feedback_are_later_waves(runs: Path) -> None:
    rounds: dict[str, Any] = {"rounds.max": 3, "limit": 13}
    with MockServer() as server:
        ended = harness(*command(server, **rounds))
        assert ended.returncode == 0, ended.stderr
        found = comparable(runs, "gpt4")
        assert {round_ for _, _, round_ in found} == {1, 2, 3}
        assert server.stats().batches < server.stats().batch_requests / 4
        live = [*command(server, batch="null", **rounds), "--name", "live"]
        assert harness(*live, env=another_cache(runs)).returncode == 0
        assert comparable(runs, "live") == found


def test_judgements_are_waves_of_their_own_or_live(runs: Path) -> None:
    with MockServer() as server:
        judge = {"backend": "anthropic", "name": "claude", "base_url": server.url}
        given = {
            "model.base_url": server.base_url,
            "limits.batch": "{poll_s: 0.1}",
            "judges": json.dumps([{"name": "infobench", "model": judge}]),
        }
        options = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
        arguments = ["run", "configs/openai_infobench.yaml", "--limit", "13", *options]
        assert "2 waves of up to 24 hours" in harness(*arguments, "--dry-run").stdout
        ended = harness(*arguments)
        assert ended.returncode == 0, ended.stderr
        stats = server.stats()
        assert stats.answered == stats.batch_answered > 13
        live = [*arguments, "-o", "judges.infobench.model.limits={batch: false}", "-o", "seed=1"]
        ended = harness(*live, "--name", "live")
        assert ended.returncode == 0, ended.stderr
        assert server.stats().batch_answered == stats.batch_answered + 13
        assert server.stats().answered == 2 * stats.answered


def test_a_later_run_takes_the_replies_at_their_price(runs: Path) -> None:
    with MockServer() as server:
        assert harness(*command(server, samples=1)).returncode == 0
        ended = harness(*command(server, batch="null", samples=1), "--name", "second")
        assert ended.returncode == 0, ended.stderr
        assert server.stats().answered == 130
        costs = [
            {place: one["cost_usd"] for place, one in attempts(runs, name).items()}
            for name in ("gpt4", "second")
        ]
        assert costs[0] == costs[1]


def test_replies_of_a_deleted_runs_batch_are_cached_and_their_cost_counts(runs: Path) -> None:
    with MockServer(batch_latency=8) as server:
        words = [*command(server, samples=1, **{"budget.usd": 3}), "--yes", "--limit", "20"]
        assert harness(*words, "--detach").returncode == 4
        shutil.rmtree(runs)
        ended = harness(*words)
        assert ended.returncode == 0, ended.stderr
        assert server.stats().batches == 1
        found = metrics(runs, "gpt4")
        assert found["n_calls"] == found["n_cached_calls"] == server.stats().answered
        assert found["paid_usd"] == 0 < found["cost_usd"]
        spent = f"budget {format_usd(found['cost_usd'])[:5]}"
        assert spent in ended.stderr, "the cap counts what the deleted run's batch has cost"


def test_a_budget_is_spent_at_the_price_of_batches(runs: Path) -> None:
    with MockServer(answers=lambda *_: "one two three four") as server:
        cap: dict[str, Any] = {"budget.usd": 20 * CALL_USD}
        ended = harness(*command(server, samples=1, **cap))
        spent = metrics(runs, "gpt4")["paid_usd"]
        assert ended.returncode in (0, 3), ended.stderr
        assert spent <= 20 * CALL_USD + 1e-9
        assert server.stats().answered > 20, "answers are shorter than the most"
        assert spent == pytest.approx(server.stats().completion_tokens * 500 / 1e6)


def test_after_a_batch_above_its_maximum_the_others_are_cancelled(runs: Path) -> None:
    """Two waves: a batch of 13 calls that never ends, and one whose replies cost too much."""
    with MockServer(**SLOW) as server:
        cap: dict[str, Any] = {"budget.usd": 2 * 26 * CALL_USD, "samples": 1}
        assert harness(*command(server, limit=13, **cap), "--detach").returncode == 4
        server.change(batch_latency=0, faults={"usage_huge": 1})
        ended = harness(*command(server, limit=26, **cap))
        assert ended.returncode == 1, ended.stderr
        assert "The budget cannot be kept" in " ".join(ended.stderr.split())
        assert (server.stats().batches, server.stats().open_batches) == (2, 0)
        listed = json.loads(harness("batches", "--format", "json").stdout)
        assert sorted(one["status"] for one in listed) == ["cancelling", "completed"]


def test_a_batch_that_fails_as_a_whole_ends_the_run(runs: Path) -> None:
    with MockServer(models=["another"]) as server:
        assert "model_not_found" in mistake(harness(*command(server, samples=1)))
        assert server.stats().answered == 0


def test_a_dry_run_says_how_many_waves_and_the_price_of_batches(runs: Path) -> None:
    with MockServer() as server:
        two: dict[str, Any] = {"rounds.max": 2}
        live = harness(*command(server, batch="null", **two), "--dry-run").stdout
        batched = harness(*command(server, **two), "--dry-run").stdout
    assert "1 to 2 waves of up to 24 hours" in batched
    assert "waves" not in live
    usd = [float(re.search(r"cost +\$([0-9.]+)", text)[1]) for text in (live, batched)]  # type: ignore[index]
    assert usd[1] == pytest.approx(usd[0] / 2, abs=0.02)


def test_a_backend_without_batches_is_refused(runs: Path) -> None:
    said = mistake(harness("run", "configs/quickstart.yaml", "--batch"))
    assert "the backend 'simulated' has no batches" in said
    with MockServer() as server:
        said = mistake(harness(*command(server, batch="{after: 30m}")))
        assert "after and then need each other" in said


@pytest.mark.parametrize("provider", ["azure", "groq", "mistral", "together", "gemini"])
def test_every_provider_answers_like_without_batches(runs: Path, provider: str) -> None:
    given: dict[str, Any] = {"limit": 13, "samples": 2}
    with MockServer(**faults(provider), seed=1) as server:
        batched = [*command(server, provider, **given), "--name", "batched"]
        left = harness(*batched, "--detach")
        while left.returncode == 4:
            left = harness(*batched, "--detach")
        assert left.returncode == 0, left.stderr
        stats = server.stats()
        assert stats.answered == stats.batch_answered == 26
        server.change(faults={})
        live = [*command(server, provider, batch="null", **given), "--name", "live"]
        assert harness(*live, env=another_cache(runs)).returncode == 0
    assert comparable(runs, "batched") == comparable(runs, "live")


@pytest.mark.parametrize("provider", ["openai", "mistral", "together", "gemini"])
def test_a_batch_that_is_created_late_costs_nothing_twice(runs: Path, provider: str) -> None:
    seed = next(seed for seed in range(100) if draw(seed, "late", 1)[0] < 0.5)
    with MockServer(batch_faults={"late": 0.5}, batch_latency=1.5, seed=seed) as server:
        ended = harness(*command(server, provider, samples=1))
        assert ended.returncode == 0, ended.stderr
        listed = json.loads(harness("batches", "--format", "json").stdout)
        assert [one["status"] for one in listed].count("not created") >= 1
        assert "not created" not in harness("batches").stdout
        stats = server.stats()
        assert (stats.answered, stats.batches) == (130, 1)


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_a_batch_that_is_listed_late_costs_nothing_twice(runs: Path, provider: str) -> None:
    with MockServer(batch_faults={"unlisted": 1}) as server:
        waiting = "{poll_s: 0.1, search_s: 60}"
        ended = harness(*command(server, provider, waiting, limit=13, samples=1))
        assert ended.returncode == 0, ended.stderr
        assert "looking for one whose id was lost, until" in " ".join(ended.stderr.split())
        assert (server.stats().answered, server.stats().batches) == (13, 1)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_damaged_result_blocks_no_other(runs: Path, provider: str) -> None:
    with MockServer(batch_faults={"damaged": 0.3, "foreign": 0.3}, seed=3) as server:
        ended = harness(*command(server, provider, limit=13, samples=1))
        assert ended.returncode == 0, ended.stderr
        found = attempts(runs, "gpt4").values()
        assert {attempt["outcome"] for attempt in found} <= {"ok", "truncated"}
        assert len(found) == 13


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_too_large_answer_about_a_batch_ends_the_run_and_keeps_the_batch(
    runs: Path, provider: str
) -> None:
    with MockServer(batch_faults={"gzip_bomb": 1}) as server:
        arguments = command(server, provider, **{"limits.reply_mb": 1, "limit": 3})
        ended = harness(*arguments)
        assert ended.returncode == 1
        assert "has more than 1 MB: not read" in ended.stderr
        assert not attempts(runs, "gpt4"), "the batch may still give the answers"
        server.change(batch_faults={})
        ended = harness(*arguments)
        assert ended.returncode == 0, ended.stderr
        assert server.stats().batches == 1


@pytest.mark.parametrize("provider", ["mistral", "together", "gemini"])
def test_stragglers_of_every_provider_are_finished_live(runs: Path, provider: str) -> None:
    with MockServer(batch_latency=10) as server:
        mixed = "{after: 0.5s, then: live, poll_s: 0.1}"
        ended = harness(*command(server, provider, batch=mixed, samples=1))
        assert ended.returncode == 0, ended.stderr
        stats = server.stats()
        assert (stats.answered, stats.batches) == (130, 1)
        assert 0 < stats.batch_answered < 130


def test_evaluations_are_made_in_batches_too(runs: Path) -> None:
    with MockServer(**SLOW) as server:
        given = {"model.base_url": server.base_url, "limits.batch": "{poll_s: 0.1}"}
        options = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
        arguments = ["eval", "collie", "--model", "openai/m", "--limit", "13", *options]
        arguments += ["-o", "task.dataset=builtin"]
        assert harness(*arguments, "--detach").returncode == 4
        assert (server.stats().batches, server.stats().batch_requests) == (1, 13)
        server.change(batch_latency=0)
        (batch,) = json.loads(harness("batches", "--format", "json").stdout)
        assert harness("batches", "cancel", batch["id"]).returncode == 0
        ended = harness(*arguments, "--batch")
        assert ended.returncode == 0, ended.stderr
        assert server.stats().answered == server.stats().batch_answered == 13


def test_a_batch_is_given_up_only_if_forced(runs: Path) -> None:
    with MockServer(**SLOW) as server:
        arguments = command(server, samples=1)
        assert harness(*arguments, "--detach").returncode == 4
        (batch,) = json.loads(harness("batches", "--format", "json").stdout)
    with MockServer() as server:  # of another account: it does not know the batch
        query = "UPDATE batches SET endpoint = ?"
        replies = Path(os.environ["HARNESS_CACHE_DIR"]) / "replies.sqlite"
        with contextlib.closing(sqlite3.connect(replies)) as file:
            file.execute(query, [server.base_url])
            file.commit()
        arguments = command(server, samples=1)
        said = " ".join(mistake(harness(*arguments)).split())
        assert "another key or project" in said
        assert f"harness batches cancel {batch['id']}" in said
        assert server.stats().answered == 0
        assert "given up" in harness("batches", "cancel", "--force", batch["id"]).stderr
        assert harness(*arguments).returncode == 0
        assert server.stats().answered == 130


def another_cache(runs: Path) -> dict[str, str]:
    return {**os.environ, "HARNESS_CACHE_DIR": str(runs.parent / "another")}


@pytest.mark.parametrize(("provider", "samples", "kills"), sizes(2))
def test_two_processes_on_one_cache_pay_once(
    runs: Path, provider: str, samples: int, kills: int
) -> None:
    with MockServer(**faults(provider), seed=samples) as server:
        cap: dict[str, Any] = {"budget.usd": CALL_USD * 130 * samples, "samples": samples}
        one, two = ([*command(server, provider, **cap), "--name", name] for name in ("one", "two"))
        draw = random.Random(kills)
        for _ in range(kills):
            processes = [begun(*one), begun(*two)]
            time.sleep(draw.uniform(0.5, 2.5 + samples / 10))
            doomed = draw.choice(processes)
            doomed.kill()
            time.sleep(draw.uniform(0, 0.5))
            for process in processes:
                process.kill()
                process.communicate()
        for process in (begun(*one), begun(*two)):
            finish(process)
        stats = server.stats()
        paid = Counter[str]()
        for name in ("one", "two"):
            found = attempts(runs, name)
            assert {attempt["outcome"] for attempt in found.values()} <= {"ok", "truncated"}
            paid.update(a["call_id"] for a in found.values() if not a["cached"])
            assert metrics(runs, name)["paid_usd"] <= cap["budget.usd"] + 1e-9
        assert set(paid.values()) == {1}
        assert len(paid) == stats.answered
        assert comparable(runs, "one") == comparable(runs, "two")


@pytest.mark.parametrize("fault", ["401", "403", "404"])
def test_a_denied_request_of_a_batch_is_an_error(tmp_path: Path, fault: str) -> None:
    faulty = ["row 00.", "row 39."]
    with MockServer(faults={fault: 1}, fault_on=faulty, answers=answer) as server:
        run = Run(tmp_path, server, limits={"batch": {"poll_s": 0.1}})
        ended = harness("run", run.file, env=run.environment)
        assert "Results in" in ended.stderr
        assert Counter(run.outcomes().values()) == {"ok": N - 2, "error": 2}


def test_a_batch_whose_requests_are_all_denied_ends_the_run(tmp_path: Path) -> None:
    with MockServer(faults={"404": 1}) as server:
        run = Run(tmp_path, server, limits={"batch": {"poll_s": 0.1}})
        ended = harness("run", run.file, env=run.environment)
        assert ended.returncode == 1
        assert "20 different prompts in a row were rejected alike" in ended.stderr
        assert "answered 404" in ended.stderr


def test_service_tiers_and_log_likelihoods_are_refused(runs: Path, tmp_path: Path) -> None:
    with MockServer() as server:
        said = mistake(harness(*command(server), "-o", "model.service_tier=flex"))
        assert "Batches have no service tiers" in said
        task = {"rows": [{"question": "?", "choices": ["1", "2"], "target": "1"}]}
        model = {"backend": "openai_completions", "name": "m", "base_url": server.base_url}
        choices = {"task": {**task, "choices": {"by": "letter_logprob"}}, "model": model}
        file = tmp_path / "choices.yaml"
        file.write_text(json.dumps(choices))
        assert "not requested in batches" in mistake(harness("run", file, "--batch"))
        assert server.stats().requests == 0


def damage(how: str) -> None:
    """Damage the cache, or delete it."""
    path = Path(os.environ["HARNESS_CACHE_DIR"]) / "replies.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if how == "deleted":
        path.unlink()
        return
    with path.open("r+b") as content:
        content.write(bytes(100))


@pytest.mark.parametrize("how", ["header", "deleted"])
def test_a_batch_is_not_submitted_again_after_the_cache_was_damaged(runs: Path, how: str) -> None:
    with MockServer(**SLOW) as server:
        words = command(server, samples=1, **{"budget.usd": 10})
        assert harness(*words, "--detach").returncode == 4
        damage(how)
        dry = harness(*words, "--dry-run", close_fds=True)  # its log is on stderr
        assert dry.returncode == 0, dry.stderr
        left = harness(*words, "--detach")
        assert left.returncode == 4, left.stderr
        if how == "header":
            assert "is damaged. The next run moves it aside" in dry.stderr
            assert "was damaged and has been moved to replies.sqlite.damaged-" in left.stderr
        server.change(batch_latency=0)
        [batch] = json.loads(harness("batches", "--format", "json").stdout)
        assert harness("batches", "cancel", batch["id"]).returncode == 0
        assert harness(*words).returncode == 0
        assert server.stats().answered == len(attempts(runs, "gpt4")) == 130
    copies = Path(os.environ["HARNESS_CACHE_DIR"]) / "replies.batches"
    assert not [*copies.iterdir()], "batches that have ended need no copy"


def test_a_batch_whose_record_is_lost_is_found_by_its_tag(runs: Path) -> None:
    with MockServer(**SLOW) as server:
        words = command(server, samples=1)
        assert harness(*words, "--detach").returncode == 4
        cache = Path(os.environ["HARNESS_CACHE_DIR"])
        shutil.rmtree(cache / "replies.batches")
        with contextlib.closing(sqlite3.connect(cache / "replies.sqlite")) as file, file:
            file.execute("DELETE FROM batches")
        left = harness(*words, "--detach")
        assert left.returncode == 4, left.stderr
        assert server.stats().batches == 1
        [batch] = json.loads(harness("batches", "--format", "json").stdout)
        assert batch["status"] == "in progress"
