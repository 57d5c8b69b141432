"""One run file with only ``model:`` changed, through every protocol and some presets."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from harness.plugins.mock.server import MockServer
from tests.backends.answering import answering
from tests.backends.cloud_accounts import AWS, TOKEN, google_account
from tests.cli.command import harness, mistake
from tests.installed import has_backend, has_run_step
from tests.rows import QUICKSTART, TASK

FILE = (
    f"\n{TASK}"
    + """decoding: {max_tokens: 100}
limit: 26
seed: null
"""
)
MODELS = {
    "openai": "{backend: openai, base_url: URL/v1, name: m}",
    "completions": "{backend: openai_completions, base_url: URL/v1, name: m}",
    "responses": "{backend: openai_responses, base_url: URL/v1, name: m}",
    "gemini": "{backend: gemini, base_url: URL/v1beta, name: m}",
    "vertex": "{backend: gemini, project: p, base_url: URL/v1, name: m}",
    "anthropic_vertex": "{backend: anthropic_vertex, project: p, base_url: URL/v1, name: m}",
    "bedrock": "{backend: bedrock, region: eu-central-1, base_url: URL, name: m}",
    "anthropic": "{backend: anthropic, base_url: URL, name: m}",
    "groq": "{backend: openai, preset: groq, base_url: URL/v1, name: m}",
    "mistral": "{backend: openai, preset: mistral, base_url: URL/v1, name: m}",
    "vllm": "{backend: openai, preset: vllm, base_url: URL/v1, name: m}",
}
MODELS = {name: model for name, model in MODELS.items() if has_backend(model)}
VOLATILE = {"run", "started_at", "ended_at", "latency_s", "call_id", "usage"}


def attempts(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "attempts.jsonl").read_bytes().splitlines()
    found = [msgspec.json.decode(line) for line in lines]
    kept = [{k: v for k, v in attempt.items() if k not in VOLATILE} for attempt in found]
    return sorted(kept, key=lambda attempt: attempt["instance"])


def test_the_attempts_differ_in_nothing_but_the_model(tmp_path: Path) -> None:
    # The same text whatever the protocol: an answer by the prompt, not by the body.
    answers = lambda ask, index: "Snow fell on the quiet town."  # noqa: E731
    with MockServer(answers=answers) as server, answering(json.dumps(TOKEN)) as (tokens, _):
        accounts = AWS | google_account(tmp_path / "account.json", tokens)
        runs = {}
        for name, model in MODELS.items():
            file = tmp_path / f"{name}.yaml"
            file.write_text(f"model: {model.replace('URL', server.url)}{FILE}")
            environment = (
                os.environ
                | accounts
                | {
                    "HARNESS_RUNS_DIR": str(tmp_path / "runs"),
                    # The presets name one server here: they would share its replies.
                    "HARNESS_CACHE_DIR": str(tmp_path / "cache" / name),
                }
            )
            ended = harness("run", file, env=environment)
            assert ended.returncode == 0, ended.stderr
            runs[name] = attempts(tmp_path / "runs" / name)
        assert server.stats().requests == 26 * len(MODELS)
    assert len(runs["openai"]) == 26
    # A local server costs nothing; what the others cost here, nobody has said.
    assert {a.pop("cost_usd") for a in runs["vllm"]} == {0.0}
    assert {a.pop("cost_usd") for name in MODELS if name != "vllm" for a in runs[name]} == {None}
    for name, found in runs.items():
        assert found == runs["openai"], name


REFUSED = [
    ("{backend: anthropic, name: m}", "decoding.temperature=0.7", "decoding.temperature"),
    ("{backend: anthropic, name: m}", "decoding.max_tokens=null", "decoding.max_tokens"),
    ("{backend: openai_completions, name: m}", "rounds.max=2", "rounds.max"),
    ("{backend: openai, preset: grok, name: m}", "seed=1", "preset"),
    ("{backend: openai}", "seed=1", "model.name"),
    ("{backend: openai, name: m, temperature: 0}", "seed=1", "'decoding.temperature'"),
    ("{backend: openai, name: o3}", "decoding.temperature=0.7", "decoding.temperature"),
    ("{backend: openai, name: o3-pro}", "seed=1", "only through the Responses API"),
    ("{backend: openai_responses, name: m}", "decoding.stop=[x]", "decoding.stop"),
    ("{backend: openai, name: m}", "decoding.constraint={regex: a}", "by a regex"),
    (
        "{backend: openai, name: m}",
        "decoding.constraint=task",
        "has no check json_schema",
    ),
    (
        "{backend: openai, name: m}",
        "decoding.constraint={regex: '(?:a{30000}){30000}'}",
        "takes too much memory",
    ),
    ("{backend: openai, name: m}", "decoding.constraint={}", "is one of json_schema"),
    (
        "{backend: openai, name: m, base_url: 'http://localhost:1/v1'}",
        "decoding.constraint={json_schema: {}}",
        "accepts none",
    ),
]
"""Models, options that their providers do not take, and what the refusal names."""


@pytest.mark.parametrize(
    ("model", "option", "said"), [case for case in REFUSED if has_backend(case[0])]
)
def test_what_a_provider_does_not_take_is_refused_by_name_before_any_work(
    tmp_path: Path, model: str, option: str, said: str
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"model: {model}{FILE}")
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    ended = harness("run", file, "-o", option, env=os.environ | keys)
    assert said in mistake(ended)


def test_reasoning_is_kept_apart_by_every_protocol(tmp_path: Path) -> None:
    forms = {"openai": "think", "completions": "think", "anthropic": "blocks"}
    for name, form in forms.items():
        if name not in MODELS:  # its package is not installed
            continue
        with MockServer(reasoning=form) as server:
            file = tmp_path / f"{name}.yaml"
            file.write_text(f"model: {MODELS[name].replace('URL', server.url)}{FILE}")
            environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
            assert (
                harness("run", file, "-o", "decoding.max_tokens=500", env=environment).returncode
                == 0
            )
        for attempt in attempts(tmp_path / "runs" / name):
            assert attempt["reasoning"]
            assert "think>" not in attempt["text"]
            assert attempt["reasoning"] not in attempt["text"]


@pytest.mark.skipif(not has_run_step("dry_run"), reason="the provider itself would be asked")
def test_a_base_url_for_other_tools_is_not_used_without_a_word(tmp_path: Path) -> None:
    own = {"HARNESS_RUNS_DIR": str(tmp_path), "OPENAI_API_KEY": "sk-0123456789"}
    environment = os.environ | own | {"OPENAI_BASE_URL": "http://localhost:1/v1"}
    command = ("run", QUICKSTART, "--model", "openai/m", "--dry-run")
    ended = harness(*command, env=environment)
    assert "OPENAI_BASE_URL is not used: m is called at https://api.openai.com" in ended.stderr
    assert "To use it: -o model.base_url=$OPENAI_BASE_URL" in ended.stderr
    stated = harness(*command, "-o", "model.base_url=http://localhost:1/v1", env=environment)
    assert stated.returncode == 0, stated.stderr
    assert "OPENAI_BASE_URL" not in stated.stderr


ROWS = [{"id": name, "question": f"{name}?", "target": "is"} for name in ("good", "bad", "fine")]
KEY = "sk-0123456789abcdefghijklmnop"
FAULTS = {
    **dict.fromkeys(("408", "425", "498", "502"), ("error", "answered {}")),
    **{f"error_body:{code}": ("error", f"answered {code}") for code in (403, 404, 429, 500)},
    "error_in_choice:429": ("error", "answered 429"),
    "no_choices": ("error", "list of choices is empty"),
    "latin_1": ("error", "not in UTF-8"),
    **dict.fromkeys(("no_message", "refused_completion"), ("refused", "content_filter")),
    **dict.fromkeys(("finish:sensitive", "finish:SAFETY"), ("refused", "")),
    **{
        f"finish:{reason}": ("truncated", reason)
        for reason in (
            *("model_length", "model_context_window_exceeded", "max_tokens", "MAX_TOKENS"),
            *("pause_turn", "compaction"),
        )
    },
    **{
        f"finish:{reason}": ("error", reason)
        for reason in ("insufficient_system_resource", "network_error")
    },
    "finish:weather": ("ok", "weather"),
    "thinking_parts": ("ok", '"reasoning":"Let me think."'),
    "other_model": ("ok", '"answered_by":"m-2026-11-01"'),
    "usage_deepseek": ("ok", '"cached_input_tokens":2'),
    "usage_kimi": ("ok", '"cached_input_tokens":2'),
    "usage_openrouter": ("ok", '"cost_usd":0.125'),
    "key_in_finish": ("ok", "[key]"),
    "key_in_answer": ("ok", "[key]"),
    "key_in_error": ("error", "[key]"),
    "key_part_in_error": ("error", "[key]"),
}
"""The outcome of an attempt whose request meets a fault, and a text in its line."""
FINAL = {"error_body:403", "error_body:404", "latin_1", "key_in_error", "key_part_in_error"}
"""Errors after which a call is not tried again."""


def run_rows(
    folder: Path, model: dict[str, Any], **settings: Any
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Run three rows. Return what the command prints to stderr, and the attempts by row."""
    model = {"name": "m", "api_key_env": "MOCK_API_KEY", **model}
    task = {"rows": ROWS, "prompt": "{{ question }}", "checks": ["contains"]}
    (folder / "run.yaml").write_text(json.dumps({"task": task, "model": model, **settings}))
    environment = {"HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache", "MOCK_API_KEY": KEY}
    ended = harness("run", "run.yaml", env=os.environ | environment, cwd=folder)
    assert "Traceback" not in ended.stderr
    path = folder / "runs/run/attempts.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return ended.stderr, {row["instance"]: row for row in map(msgspec.json.decode, lines)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_prompt_has_its_outcome(tmp_path: Path, fault: str) -> None:
    outcome, text = FAULTS[fault]
    with MockServer(faults={fault: 1}, fault_on=["bad"], retry_after=None) as server:
        model = {"backend": "openai", "base_url": server.base_url}
        if fault == "usage_openrouter":
            model["preset"] = "openrouter"
        stderr, rows = run_rows(tmp_path, model, limits={"attempts": 2})
        tries = server.stats().by_fault[fault]
    assert tries == (2 if outcome == "error" and fault not in FINAL else 1)
    assert {name: row["outcome"] for name, row in rows.items()} == {
        **dict.fromkeys(("good", "fine"), "ok"),
        "bad": outcome,
    }
    assert text.format(fault) in msgspec.json.encode(rows["bad"]).decode()
    assert ("--retry weather" in stderr) == (fault == "finish:weather")
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert KEY[:20].encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    "name", sorted({"openai", "responses", "gemini", "bedrock", "anthropic"} & MODELS.keys())
)
def test_an_account_without_credit_ends_the_run_at_once(tmp_path: Path, name: str) -> None:
    with MockServer(faults={"no_credit": 1}) as server:
        model = yaml.safe_load(MODELS[name].replace("URL", server.url))
        stderr, rows = run_rows(
            tmp_path, model, decoding={"max_tokens": 99}, limits={"concurrency": 1}
        )
        assert server.stats().requests == 1
    assert not rows
    assert re.search("no credit left|quota is renewed", stderr)


@pytest.mark.parametrize(
    ("server", "query", "message"),
    [
        ({"refuse": ["max_tokens"]}, "", "Set model.preset: openai, which sends"),
        ({"models": ["other"]}, "", "Check model.name ('m') and model.base_url"),
        ({"api_key": "sk-another-key-0123456789"}, "", "environment variable MOCK_API_KEY"),
        ({}, "?api-version=2024-10-21", "Results in"),
    ],
)
def test_a_mistake_is_explained(
    tmp_path: Path, server: dict[str, Any], query: str, message: str
) -> None:
    with MockServer(**server) as mock:
        model = {"backend": "openai", "base_url": mock.base_url + query}
        stderr, _ = run_rows(tmp_path, model, decoding={"max_tokens": 99})
    assert message in " ".join(stderr.split())
