"""`harness run` under limits, failures and a budget: the server counts what was promised."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import begun, harness, mistake
from tests.cli.test_run import attempts, metrics, wait_for_lines, wait_until
from tests.installed import has_run_step
from tests.rows import GPT4_FILE, TASK, WORDS

GPT4 = ("run", GPT4_FILE, "-o", "samples=1")
PRICE = ("-o", "model.price={input: 10, output: 1000}")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


def at(server: MockServer, *options: str) -> tuple[str, ...]:
    words = [word for option in options for word in ("-o", option)]
    return (*GPT4, "-o", f"model.base_url={server.base_url}", *words)


def outcomes(runs: Path, name: str = "gpt4") -> Counter[str]:
    return Counter(attempt["outcome"] for attempt in attempts(runs, name).values())


def test_identical_prompts_in_flight_are_one_call(runs: Path, tmp_path: Path) -> None:
    item = msgspec.json.decode(Path(WORDS["path"]).read_bytes().splitlines()[0])
    same = tmp_path / "same.jsonl"
    same.write_bytes(
        b"\n".join(msgspec.json.encode(item | {"id": f"word01/{n}"}) for n in range(150))
    )
    with MockServer(latency=0.2) as server:
        ended = harness(*at(server, "limits.concurrency=100", f"task.path={same}"))
        assert ended.returncode == 0, ended.stderr
        assert server.stats().requests == 1
    found = attempts(runs, "gpt4")
    assert len(found) == 150
    assert len({attempt["call_id"] for attempt in found.values()}) == 1
    assert sum(not attempt["cached"] for attempt in found.values()) == 1


def test_a_wrong_key_is_asked_about_a_few_times_only(runs: Path) -> None:
    with MockServer(api_key="right", latency=0.02) as server:
        said = mistake(harness(*at(server, "limits.concurrency=100")))
        assert "401" in said
        assert server.stats().requests < 100


def test_faults_of_every_kind_leave_each_sample_with_its_outcome(runs: Path) -> None:
    faults = {
        "429": 0.1, "500": 0.05, "503": 0.02, "reset": 0.03, "stall": 0.01, "trickle": 0.01,
        "invalid_json": 0.02, "truncated_body": 0.02, "empty": 0.02, "refusal": 0.02,
    }  # fmt: skip
    with MockServer(latency=0.01, faults=faults, retry_after=0.2) as server:
        ended = harness(
            *at(server, "samples=2", "limits.concurrency=40", "limits.timeout_s=3"),
            "-o", "limits.attempts=12",
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        answered_twice = [body for body in server.bodies().values() if body.answered > 1]
        assert not answered_twice
        assert len(attempts(runs, "gpt4")) == 260
        lines = (runs / "gpt4" / "attempts.jsonl").read_bytes().splitlines()
        assert len(lines) == 260
        counted = outcomes(runs)
        assert counted.keys() == {"ok", "empty", "refused"}
        assert counted["empty"] < 20
        # What is empty may be an outage's: it is asked for again, the rest is not.
        server.change(faults={})
        before = server.stats().requests
        again = harness(*at(server, "samples=2"), "--retry", "empty")
        assert again.returncode == 0, again.stderr
        assert server.stats().requests - before == counted["empty"]
        assert outcomes(runs).keys() == {"ok", "refused"}


def test_truncated_answers_are_drawn_again_where_the_user_says_so(runs: Path) -> None:
    with MockServer() as server:
        command = at(server, "decoding.max_tokens=3")
        assert harness(*command).returncode == 0
        cut = outcomes(runs)["truncated"]
        assert cut > 20
        assert harness(*command).returncode == 0
        assert server.stats().requests == 130
        if has_run_step("dry_run"):
            said = harness(*command, "--retry", "truncated", "--dry-run").stdout
            (to_pay,) = [line for line in said.splitlines() if line.startswith("calls to pay")]
            assert to_pay.split() == ["calls", "to", "pay", str(cut)]
        ended = harness(*command, "--retry", "truncated")
        assert ended.returncode == 0, ended.stderr
        assert server.stats().requests == 130 + cut
        drawn = [a for a in attempts(runs, "gpt4").values() if a["request"].get("redraw")]
        assert len(drawn) == cut
        # Each draw is a call of its own: its cost counts.
        assert metrics(runs, "gpt4")["n_calls"] == 130 + cut
    assert "Did you mean 'truncated'?" in mistake(harness(*command, "--retry", "truncate"))


def test_a_provider_that_goes_away_is_waited_for(runs: Path) -> None:
    with MockServer(latency=0.02) as server:
        port = urlsplit(server.base_url).port or 0
        process = begun(*at(server, "samples=2", "limits.concurrency=10"))
        wait_until(lambda: server.stats().requests > 100)
    time.sleep(3)
    with MockServer(port=port):
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "paused until" in said
    assert outcomes(runs) == {"ok": 260}


def test_one_that_stays_away_ends_the_run_which_can_go_on(runs: Path) -> None:
    with MockServer(latency=0.02, faults={}) as server:
        command = at(server, "limits.concurrency=10", "limits.outage_s=1.2")
        process = begun(*command)
        wait_for_lines(runs / "gpt4" / "attempts.jsonl", 20)
        server.change(faults={"503": 1.0})
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "503" in said
        assert "To continue: " in said
        assert "Traceback" not in said
        server.change(faults={})
        assert harness(*command).returncode == 0
    assert outcomes(runs) == {"ok": 130}


def test_ctrl_c_does_not_wait_for_a_rate_limit(runs: Path) -> None:
    with MockServer() as server:
        process = begun(*at(server, "limits.rpm=20", "limits.concurrency=10"))
        wait_until(lambda: server.stats().requests >= 2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "To continue: " in said


def test_a_budget_is_a_hard_cap_and_may_be_raised(runs: Path) -> None:
    with MockServer(latency=0.01) as server:
        tokens = ("decoding.max_tokens=100", "limits.concurrency=20")

        def paid() -> float:
            stats = server.stats()
            return (10 * stats.prompt_tokens + 1000 * stats.completion_tokens) / 1e6

        ended = harness(*at(server, *tokens, "budget.usd=2"), *PRICE)
        assert ended.returncode == 3, ended.stderr
        assert "The budget of $2.00" in ended.stderr
        assert "to continue: " in ended.stderr
        assert 1.8 <= paid() <= 2
        assert metrics(runs, "gpt4")["paid_usd"] == pytest.approx(paid())
        assert metrics(runs, "gpt4")["complete"] is False
        asked = Counter(a["groups"]["structure"] for a in attempts(runs, "gpt4").values())
        assert len(asked) == 13, "round the groups"
        before = server.stats().requests
        assert harness(*at(server, *tokens, "budget.usd=2"), *PRICE).returncode == 3
        assert server.stats().requests == before
        ended = harness(*at(server, *tokens, "budget.usd=3"), *PRICE)
        assert ended.returncode == 3
        assert 2.8 <= paid() <= 3
        ended = harness(*at(server, *tokens, "budget.usd=100"), *PRICE)
        assert ended.returncode == 0, ended.stderr
        assert server.stats().requests == 130
    assert metrics(runs, "gpt4")["cost_usd"] == pytest.approx(paid())


def test_a_budget_holds_however_often_a_run_is_killed(runs: Path) -> None:
    with MockServer(latency=0.02) as server:
        command = (
            *at(server, "samples=4", "decoding.max_tokens=100", "limits.concurrency=20"),
            *PRICE, "-o", "budget.usd=4",
        )  # fmt: skip
        file = runs / "gpt4" / "attempts.jsonl"
        for kill in range(2):
            process = begun(*command)
            lines = 12 * (kill + 1)
            wait_until(
                lambda process=process, lines=lines: (
                    process.poll() is not None
                    or (file.exists() and file.read_bytes().count(b"\n") >= lines)
                )
            )
            process.kill()
            process.communicate()
        assert harness(*command).returncode == 3
        stats = server.stats()
        paid = (10 * stats.prompt_tokens + 1000 * stats.completion_tokens) / 1e6
        # What was on its way when a process died may be billed.
        lost = stats.requests - sum(body.answered for body in server.bodies().values())
        assert paid + lost * 100 * 1000 / 1e6 <= 4
        assert paid >= 0.5


def test_the_variants_of_a_file_share_its_budget(runs: Path, tmp_path: Path) -> None:
    with MockServer() as server:
        file = tmp_path / "both.yaml"
        file.write_text(
            TASK + f"limit: 20\ndecoding: {{max_tokens: 100}}\n"
            f"model: {{backend: openai, name: m, base_url: '{server.base_url}',\n"
            "  price: {input: 10, output: 1000}}\nbudget: {usd: 2}\n"
            "variants: {one: {}, two: {decoding.temperature: 0.5}, three: {samples: 50}}\n"
        )
        ended = harness("run", file)
        assert ended.returncode == 3, ended.stderr
        stats = server.stats()
        assert (10 * stats.prompt_tokens + 1000 * stats.completion_tokens) / 1e6 <= 2
        assert stats.requests > 20


@pytest.mark.parametrize("earlier", ["kept", "deleted", "removed", "renamed"])
def test_the_former_variants_of_a_file_share_its_budget(
    runs: Path, tmp_path: Path, earlier: str
) -> None:
    with MockServer() as server:
        file = tmp_path / "edited.yaml"

        def run_variants(variants: str, *options: str) -> float:
            file.write_text(
                TASK + f"limit: 20\ndecoding: {{max_tokens: 100}}\nlimits: {{concurrency: 2}}\n"
                f"model: {{backend: openai, name: m, base_url: '{server.base_url}',\n"
                "  price: {input: 10, output: 1000}}\nbudget: {usd: 0.5}\n" + variants
            )
            ended = harness("run", file, *options)
            assert ended.returncode == 3, ended.stderr
            stats = server.stats()
            return (10 * stats.prompt_tokens + 1000 * stats.completion_tokens) / 1e6

        assert 0.3 < run_variants("variants: {one: {seed: 1}}") <= 0.5
        if earlier == "deleted":
            shutil.rmtree(runs / "edited.one")
        elif earlier == "removed":
            assert harness("rm", "edited.one", "--yes").returncode == 0
        elif earlier == "renamed":
            assert harness("mv", "edited.one", "moved").returncode == 0
        assert run_variants("variants: {two: {seed: 2}}") <= 0.5
        assert run_variants("") <= 0.5
        shutil.rmtree(runs / "edited", ignore_errors=True)
        assert run_variants("variants: {three: {seed: 3}, four: {seed: 4}}") <= 0.5
        assert run_variants("variants: {five: {seed: 5}}", "--name", "other") > 0.6
        paid = run_variants("variants: {three: {seed: 6}, four: {seed: 7}}", "--fresh")
        assert paid > 0.9  # the whole budget again
        assert run_variants("variants: {three: {seed: 6}, four: {seed: 7}}") == paid
        assert run_variants("variants: {six: {seed: 8}}") == paid


@pytest.mark.timed
def test_each_variant_has_its_own_rate_limit(runs: Path, tmp_path: Path) -> None:
    with MockServer() as server:
        file = tmp_path / "both.yaml"
        file.write_text(
            TASK + f"limit: 13\n"
            f"model: {{backend: openai, name: m, base_url: '{server.base_url}'}}\n"
            "variants: {slow: {limits.rpm: 120}, quick: {seed: 1, limits.rpm: 60000}}\n"
        )
        assert harness("run", file).returncode == 0
    slow, quick = (attempts(runs, f"both.{name}").values() for name in ("slow", "quick"))

    def span(found: Any) -> float:
        attempts = list(found)
        began = min(attempt["started_at"] for attempt in attempts)
        return max(attempt["ended_at"] for attempt in attempts) - began

    assert span(slow) >= 0.5  # ten at once, and one in each half second from then on
    assert len(quick) == 13


def test_one_call_that_always_fails_is_an_error_and_not_the_end(runs: Path, tmp_path: Path) -> None:
    items = Path(WORDS["path"]).read_text().splitlines()[:20]
    file = tmp_path / "items.jsonl"
    file.write_text("\n".join(items))
    with MockServer() as server:
        command = at(server, f"task.path={file}", "limits.attempts=3", "limits.outage_s=5")
        assert harness(*command, "-o", "limit=19").returncode == 0
        server.change(faults={"500": 1.0}, fault_on=["Write: "])
        for _ in range(2):
            ended = harness(*command)
            assert ended.returncode == 1
            assert ": 1 attempt failed:" in ended.stderr
    assert outcomes(runs) == {"ok": 19, "error": 1}


def test_a_budget_without_a_price_is_refused_before_any_call(runs: Path) -> None:
    with MockServer() as server:
        said = mistake(harness(*at(server, "budget.usd=1")))
        assert "model.price" in said
        assert "max_tokens" in mistake(
            harness(*at(server, "budget.usd=1", "decoding.max_tokens=null"), *PRICE)
        )
        assert server.stats().requests == 0


def test_a_user_has_prices_of_their_own(runs: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("127.0.0.1:\n  models:\n    mine: {input: 5, output: 50}\n")
    with MockServer() as server:
        ended = harness(
            *at(server, "model.name=mine"), env=os.environ | {"HARNESS_PRICES": str(prices)}
        )
        assert ended.returncode == 0, ended.stderr
        stats = server.stats()
        cost = (5 * stats.prompt_tokens + 50 * stats.completion_tokens) / 1e6
    assert metrics(runs, "gpt4")["cost_usd"] == pytest.approx(cost)
