"""The limits of models: a second model's, and those in a provider's headers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from harness.calls.rate_limits import RateLimits
from harness.config.run_file import Shard
from harness.config.sections import LimitsSection, ModelSection, SecondModelSection
from harness.config.settings import Settings
from harness.engine.models import ModelBuilder, Resources, apply_limits
from harness.errors import CallError, ConfigError
from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer
from harness.records import Allowance, Decoding, Message, Origin, Request
from tests.backends.answering import answering
from tests.cli.command import harness, mistake
from tests.rows import WORDS


def test_a_second_model_inherits_what_it_does_not_set_except_the_rates(tmp_path: Path) -> None:
    run = LimitsSection(timeout_s=20, attempts=2, concurrency=7, rpm=600, reply_mb=5)
    for own in (None, LimitsSection(rpm=60, concurrency=3)):
        section = SecondModelSection(backend="simulated", name="m", limits=own)
        with Resources(Settings(cache_dir=tmp_path)) as resources:
            model = ModelBuilder(resources, run, tmp_path).build(section, "judges.j.model")
        found = model.limits
        assert (found.timeout_s, found.attempts, found.reply_mb) == (20, 2, 5)
        assert (found.rpm, found.concurrency) == ((60, 3) if own else (None, 7))


def test_a_shard_keeps_to_its_part_and_shares_the_whole_rates_with_other_runs(
    tmp_path: Path,
) -> None:
    section = ModelSection(backend="simulated", name="m")
    limits = LimitsSection(rpm=40)
    request = Request("m", (Message("user", "Q"),), Decoding(), 0, Origin("i", 0, 0))
    n_sent: dict[str, int] = {}
    for shard in (Shard(1, 4), None):  # as two processes
        with Resources(Settings(cache_dir=tmp_path)) as resources:
            model = ModelBuilder(resources, limits, tmp_path, shard=shard).build(section)
            apply_limits([model])
            sent = 0
            with model.rates.lock() as ours:
                assert ours
                while model.rates.wait_s(request) == 0:
                    model.rates.reserve(request)
                    sent += 1
            n_sent[str(shard)] = sent
    assert n_sent == {"1/4": 1, "None": 3}, "a burst of 4 in all"


def test_headers_that_allow_less_than_the_limits_are_reported() -> None:
    said: list[str] = []
    rates = RateLimits({"requests": 600})
    rates.report = said.append
    for limit, remaining in ((1000, 0), (10, 5), (10, 0), (600, 0)):
        rates.observe((Allowance("requests", limit, remaining),))
    rates.observe((Allowance("tokens", 9000, 10),))
    rates.observe((Allowance("tokens", 9000, 0),))
    assert said == [
        "the provider's headers allow 10 requests a minute (limits.rpm is 600)",
        "the provider's headers allow 10 requests a minute (limits.rpm is 600), 9,000 tokens a "
        "minute, all of them used",
    ]


def test_a_run_says_that_it_waits_for_the_limit_in_the_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    with MockServer(faults={"wrong_limits": 1}) as server:
        file = tmp_path / "run.yaml"
        content = {
            "task": WORDS,
            "limit": 1,
            "model": {"backend": "openai", "name": "gpt-4", "base_url": server.base_url},
            "limits": {"rpm": 600},
        }
        file.write_text(json.dumps(content))
        ended = harness("run", file)
    assert ended.returncode == 0, ended.stderr
    assert "gpt-4, rate limit: the provider's headers allow 10 requests a minute" in " ".join(
        ended.stderr.split()
    )


SECRET = "a-gateways-secret"
HEADERS = {"X-Team": "evaluation", "X-Gateway-Token": "Bearer $GATEWAY_TOKEN"}


HTTP_MODELS: list[dict[str, Any]] = [
    {"backend": "openai"},
    {"backend": "openai", "preset": "groq"},
    {"backend": "openai_responses"},
    {"backend": "anthropic"},
]
INSTALLED = [model for model in HTTP_MODELS if model["backend"] in kind("backends").names()]


@pytest.mark.parametrize("options", INSTALLED)
async def test_every_http_backend_sends_the_headers_and_masks_their_secrets(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", SECRET)
    await check_headers(options, tmp_path)


async def check_headers(options: dict[str, Any], tmp_path: Path) -> None:
    request = Request("m", (Message("user", "Hi."),), Decoding(max_tokens=5), 0, Origin("a", 0, 1))
    with answering(f"not {SECRET}", status=400) as (url, received):
        base_url = url.removesuffix("/v1") if options["backend"] == "anthropic" else url
        tree = {"name": "m", "base_url": base_url, "headers": HEADERS, **options}
        with Resources(Settings(cache_dir=tmp_path)) as resources:
            builder = ModelBuilder(resources, LimitsSection(), tmp_path)
            backend = builder.build(ModelSection.model_validate(tree)).backend
            with pytest.raises(CallError) as failed:
                await backend.generate(request)
            await backend.aclose()
    sent = received[0].lower()
    assert b"x-team: evaluation" in sent
    assert f"x-gateway-token: bearer {SECRET}".encode() in sent
    assert SECRET not in str(failed.value)
    assert "[key]" in str(failed.value)


def test_a_secret_in_a_header_reaches_no_file_and_headers_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    choice = {"message": {"role": "assistant", "content": f"It is {SECRET}."}}
    reply = json.dumps({"choices": [{**choice, "finish_reason": "stop"}]})
    file = tmp_path / "run.yaml"

    def run(url: str, headers: dict[str, str], *more: str) -> CompletedProcess[str]:
        task = {"rows": [{"prompt": "Which?", "target": "It"}], "checks": ["contains"]}
        model = {"backend": "openai", "name": "m", "base_url": url, "headers": headers}
        file.write_text(json.dumps({"task": task, "model": model}))
        return harness("run", file, *more)

    with answering(reply) as (url, received):
        said = mistake(run(url, HEADERS))
        assert "GATEWAY_TOKEN is not set" in said
        monkeypatch.setenv("GATEWAY_TOKEN", SECRET)
        ended = run(url, HEADERS)
        assert ended.returncode == 0, ended.stderr
        assert SECRET.encode() in received[0]
        for more in ((), ("--name", "again")):  # neither refused nor asked again
            assert run(url, {"X-Team": "other"}, *more).returncode == 0
        assert len(received) == 1
        assert "contains the value of GATEWAY_TOKEN" in mistake(run(url, {"X-Team": SECRET}))
    assert "X-Team: other" in (tmp_path / "runs/run/config.yaml").read_text()
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        if path != file:
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"X-Api-Token": "abc"}, "'X-Api-Token' would contain a secret"),
        ({"helicone-auth": "Bearer abc"}, "write helicone-auth: $VARIABLE"),
        ({"Authorization": "$TOKEN"}, "the backend sets 'Authorization'"),
        ({"X-Team": "$team"}, "a $ without a variable's name in capitals"),
        ({"X Team": "a"}, "is not the name of a header"),
        ({"X-Team": "a\r\nX-Other: b"}, "line break"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(headers: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        ModelSection(backend="openai", name="m", headers=headers)
    assert "abc" not in str(refused.value).partition("[type=")[0]


def test_a_backend_without_http_refuses_headers(tmp_path: Path) -> None:
    section = ModelSection(backend="simulated", headers={"X-Team": "a"})
    with Resources(Settings(cache_dir=tmp_path)) as resources:
        builder = ModelBuilder(resources, LimitsSection(), tmp_path)
        with pytest.raises(ConfigError, match="'simulated' sends no headers"):
            builder.build(section)
    assert "headers" not in ModelSection(backend="simulated").model_dump()


def test_a_key_in_the_path_of_base_url_reaches_no_file_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    key = "sk-live-0123456789abcdef"
    file = tmp_path / "run.yaml"

    def run(url: str, key: str) -> CompletedProcess[str]:
        row = {"prompt": "Which?", "target": "yes", "criteria": "Is it an answer?"}
        task = {"rows": [row], "checks": ["contains"]}
        model = {"backend": "openai", "name": "m", "base_url": f"{url}/{key}/openai"}
        judges = [{"name": "yes_no", "votes": 1, "model": model}]
        file.write_text(json.dumps({"task": task, "model": model, "judges": judges}))
        return harness("run", file)

    choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
    with answering(json.dumps({"choices": [choice]})) as (url, received):
        for _ in range(2):
            ended = run(url, key)
            assert ended.returncode == 0, ended.stderr
        assert len(received) == 2
        assert f"post /v1/{key}/openai/chat/completions".encode() in received[0].lower()
        assert "model.base_url" in mistake(run(url, "sk-live-fedcba9876543210"))
    for path in filter(Path.is_file, (tmp_path / "runs").rglob("*")):
        assert key.encode() not in path.read_bytes(), path
