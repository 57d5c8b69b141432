"""Runs on vLLM servers that the harness owns: interrupted, killed, resumed, shared by variants."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from harness.plugins.mock.server import MockServer
from tests.backends.stand_ins import alive, until
from tests.cli.command import COMMAND as HARNESS
from tests.cli.command import ROOT, Begun, begun, harness, mistake
from tests.plugins.vllm.journal import COMMAND, Journal


class Case:
    """A folder with a run file, the stand-in's journal, and an environment."""

    def __init__(self, folder: Path, engine: dict[str, Any] | None = None, **sections: Any) -> None:
        self.journal = Journal(folder)
        self.file = folder / "it.yaml"
        self.runs = folder / "runs"
        self.env = os.environ | {
            "HARNESS_RUNS_DIR": str(self.runs),
            "HARNESS_CACHE_DIR": str(folder / "cache"),
            "HARNESS_VLLM_COMMAND": shlex.join(COMMAND),
            "COLUMNS": "200",
        }
        self.content = {
            "task": {"name": "last_letter", "dataset": "builtin"},
            "model": {
                "backend": "vllm_server",
                "name": "tiny",
                "engine": {"journal": str(self.journal.path), **(engine or {})},
            },
            "decoding": {"temperature": 0.7, "max_tokens": 20},
            "limit": 20,
            "samples": 3,
            "limits": {"concurrency": 8},
            **sections,
        }
        self.file.write_text(yaml.safe_dump(self.content))

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return harness("run", self.file, *options, env=self.env)

    def begin(self) -> Begun:
        return begun("run", self.file, env=self.env)

    def attempts(self, name: str = "it") -> list[dict[str, Any]]:
        lines = (self.runs / name / "attempts.jsonl").read_bytes().splitlines()
        return [msgspec.json.decode(line) for line in lines]

    def over(self) -> None:
        """Nothing that was started is left."""
        until(lambda: not any(map(alive, self.journal.pids())), "its servers have ended")


def rows_of(folder: Path, prompts: list[str]) -> dict[str, Any]:
    """A task of rows ``i0``, ``i1``, … that any answer passes."""
    rows = folder / "rows.jsonl"
    lines = [json.dumps({"id": f"i{n}", "prompt": prompt}) for n, prompt in enumerate(prompts)]
    rows.write_text("".join(f"{line}\n" for line in lines))
    return {
        "name": "jsonl",
        "path": str(rows),
        "prompt": "{{ prompt }}",
        "checks": [{"word_count": {"at_least": 1}}],
    }


def test_a_server_that_dies_in_the_middle_costs_only_what_was_in_flight(tmp_path: Path) -> None:
    case = Case(tmp_path, {"dies_at": 25, "latency": 0.02, "leaves_a_child": True})
    ended = case.run()
    assert ended.returncode == 0, ended.stderr
    attempts = case.attempts()
    assert len(attempts) == 60
    assert not [attempt for attempt in attempts if attempt["outcome"] == "error"]
    [death] = case.journal.lines("dies")
    asked = [line["asked"] for line in case.journal.lines("asked")]
    assert 1 <= len(asked) - len(set(asked)) <= death["in_flight"] <= 8
    assert "vllm-0.log" in [path.name for path in (case.runs / "it/servers/model").iterdir()]
    case.over()
    again = case.run()
    assert again.returncode == 0
    fresh = case.run("--fresh")
    assert fresh.returncode == 0
    assert len(case.journal.lines("starts")) == 2, "what is in the cache needs no server"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such bound")
@pytest.mark.exhaustive
def test_few_open_files_make_a_run_slower_and_do_not_end_it(tmp_path: Path) -> None:
    case = Case(tmp_path, {"latency": 0.2}, limit=None, samples=1, limits={})
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -n 120; exec "$@"', "sh", *HARNESS, "run", str(case.file)],
        capture_output=True, text=True, check=False, env=case.env, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert len(case.attempts()) == 150
    assert len(case.journal.lines("starts")) == 1


def test_a_prompt_that_kills_the_server_is_an_error_and_the_run_goes_on(tmp_path: Path) -> None:
    task = rows_of(tmp_path, [f"Say i{n}." for n in range(24)])
    case = Case(tmp_path, {"dies_of": "Say i7.", "latency": 0.02}, task=task, samples=2)
    case.content["limit"] = None
    case.file.write_text(yaml.safe_dump(case.content))
    case.run()
    errors = [attempt for attempt in case.attempts() if attempt["outcome"] == "error"]
    assert {attempt["instance"] for attempt in errors} == {"i7"}
    assert len(case.attempts()) == 48
    assert len(case.journal.lines("dies")) <= 6, "each of the two samples: at most three"
    case.over()


def test_a_model_and_its_judge_on_one_server_survive_its_death(tmp_path: Path) -> None:
    case = Case(
        tmp_path,
        {"dies_at": 25, "latency": 0.02, "answer": "yes"},
        task={"name": "wildifeval", "dataset": "builtin"},
        limit=6,
        samples=4,
    )
    judge = {"name": "yes_no", "model": {**case.content["model"], "limits": {"concurrency": 4}}}
    case.file.write_text(yaml.safe_dump({**case.content, "judges": [judge]}))
    ended = case.run()
    assert ended.returncode == 0, ended.stderr
    assert len(case.attempts()) == 24
    [death] = case.journal.lines("dies")
    asked = [line["asked"] for line in case.journal.lines("asked")]
    assert len(asked) - len(set(asked)) <= death["in_flight"] <= 12
    assert len(case.journal.lines("starts")) == 2, "one of the two has started it again"
    case.over()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_server_outlives_its_run(number: int, tmp_path: Path) -> None:
    case = Case(tmp_path, {"latency": 0.05, "leaves_a_child": True})
    process = case.begin()
    until(lambda: len(case.journal.lines("asked")) > 10, "it is at work")
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    case.over()
    if number == signal.SIGKILL:
        return
    assert process.returncode == 130, said
    asked = {line["asked"] for line in case.journal.lines("asked")}
    assert len(case.attempts()) == len(asked), "what was in flight was finished and kept"
    assert case.run().returncode == 0
    asked = [line["asked"] for line in case.journal.lines("asked")]
    assert len(asked) == len(set(asked)) == 60, "and not asked for again"


def test_a_run_goes_on_with_what_is_faster_and_not_with_what_answers_otherwise(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path, limit=2)
    assert case.run().returncode == 0
    assert case.run("-o", "model.engine.max_num_seqs=64").returncode == 0
    other = case.run("-o", "model.engine.dtype=bfloat16")
    assert "bfloat16" in mistake(other)


def test_an_old_name_of_a_constraint_is_refused(tmp_path: Path) -> None:
    ended = Case(tmp_path, decoding={"extra": {"guided_regex": "[ab]"}}).run()
    assert "guided_regex" in mistake(ended)


def test_ctrl_c_while_a_server_starts_ends_it(tmp_path: Path) -> None:
    case = Case(tmp_path, {"stays_silent": True})
    process = case.begin()
    until(lambda: case.journal.lines("starts"), "it starts")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    case.over()


def test_a_server_that_does_not_start_is_a_mistake_with_its_log(tmp_path: Path) -> None:
    case = Case(tmp_path, {"no_start": True})
    ended = case.run()
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "out of memory, says the stand-in" in ended.stderr
    assert "vllm-0.log" in ended.stderr
    assert not (case.runs / "it" / "attempts.jsonl").exists() or not case.attempts()


def test_a_command_that_is_none_is_told(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.env["HARNESS_VLLM_COMMAND"] = "'python"
    assert "HARNESS_VLLM_COMMAND cannot be parsed" in mistake(case.run())


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    case = Case(tmp_path)
    assert case.run("--dry-run").returncode == 0
    assert not case.journal.path.exists()


def test_variants_and_a_judge_share_the_server_and_another_model_takes_its_place(
    tmp_path: Path,
) -> None:
    case = Case(
        tmp_path,
        limit=4,
        task={"name": "wildifeval", "dataset": "builtin"},
        variants={
            "cold": {"decoding.temperature": 0.1},
            "warm": {"decoding.temperature": 0.9},
            "other": {"model.name": "other"},
        },
    )
    judge = {"name": "yes_no", "model": {**case.content["model"], "limits": {"concurrency": 4}}}
    case.file.write_text(yaml.safe_dump({**case.content, "judges": [judge]}))
    ended = case.run()
    assert ended.returncode in (0, 1), ended.stderr
    names = [
        line["starts"][line["starts"].index("--served-model-name") + 1]
        for line in case.journal.lines("starts")
    ]
    # The third variant's model takes the idle server's place, and its judge starts its own again.
    assert names == ["tiny", "other", "tiny"]
    case.over()


def test_each_instance_has_draws_of_its_own_where_answers_are_sampled(tmp_path: Path) -> None:
    with MockServer(models=["tiny"]) as server:
        draws_of_its_own(tmp_path, server.base_url)


def draws_of_its_own(tmp_path: Path, base_url: str) -> None:
    task = rows_of(tmp_path, ["Say it." for _ in range(16)])
    model = {"backend": "vllm_server", "name": "tiny", "base_url": base_url}
    case = Case(tmp_path, task=task, model=model, samples=8, limit=None)
    ended = case.run()
    assert ended.returncode == 0, ended.stderr
    attempts = case.attempts()
    assert len({attempt["request"]["seed"] for attempt in attempts}) == 128
    assert len({attempt["call_id"] for attempt in attempts}) == 128
    assert len({attempt["text"] for attempt in attempts}) > 120, "the answers differ with the seed"
    assert len({attempt["cluster"] for attempt in attempts}) == 1
    greedy = case.run("--name", "greedy", "-o", "decoding.temperature=0")
    assert greedy.returncode == 0
    assert len({attempt["call_id"] for attempt in case.attempts("greedy")}) == 8


def test_a_run_goes_on_on_more_gpus_but_not_with_other_weights(
    tmp_path: Path,
) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    case = Case(tmp_path, limit=2)
    path = ["-o", f"model.path={json.dumps(str(weights))}"]
    assert case.run(*path).returncode == 0
    ended = case.run(*path, "-o", "samples=4", "-o", "model.engine.data_parallel_size=2")
    assert ended.returncode == 0, ended.stderr
    assert len(case.attempts()) == 8
    (weights / "config.json").write_text('{"trained": "on"}')
    assert "another version of weights" in mistake(case.run(*path, "-o", "samples=4"))
