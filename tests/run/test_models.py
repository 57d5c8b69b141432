"""The limits of models: a second model's, and those in a provider's headers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.calls.rate_limits import RateLimits
from harness.config.sections import LimitsSection, SecondModelSection
from harness.config.settings import Settings
from harness.mock import MockServer
from harness.records import Allowance
from harness.run.models import ModelBuilder, Resources
from tests.cli.command import harness


def test_a_second_model_inherits_what_it_does_not_set_except_the_rates(tmp_path: Path) -> None:
    run = LimitsSection(timeout_s=20, attempts=2, concurrency=7, rpm=600, reply_mb=5)
    for own in (None, LimitsSection(rpm=60, concurrency=3)):
        section = SecondModelSection(backend="simulated", name="m", limits=own)
        with Resources(Settings(cache_dir=tmp_path)) as resources:
            model = ModelBuilder(resources, run, tmp_path).build(section, "judges.j.model")
        found = model.limits
        assert (found.timeout_s, found.attempts, found.reply_mb) == (20, 2, 5)
        assert (found.rpm, found.concurrency) == ((60, 3) if own else (None, 7))


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
            "task": {"name": "last_letter", "n": 1},
            "model": {"backend": "openai", "name": "gpt-4", "base_url": server.base_url},
            "limits": {"rpm": 600},
        }
        file.write_text(json.dumps(content))
        ended = harness("run", file)
    assert ended.returncode == 0, ended.stderr
    assert "gpt-4, rate limit: the provider's headers allow 10 requests a minute" in " ".join(
        ended.stderr.split()
    )
