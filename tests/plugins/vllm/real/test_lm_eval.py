"""Shapes of lm-eval's tasks, by lm-eval itself and by the harness, on one server.

It computes one request at a time and keeps no prefixes: the last digits of what a CPU computes
depend on what it computes together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest

from tests.plugins.lm_eval.recorder import Relay, serving
from tests.plugins.lm_eval.runs import (
    aggregates,
    assert_equal,
    kill,
    lm_eval,
    recorded,
    run,
    run_file,
)
from tests.plugins.lm_eval.shapes import write
from tests.plugins.vllm.real.conftest import ENGINE, PYTHON, Bench, made, server

pytestmark = pytest.mark.timeout(900)

ALONE = {**ENGINE, "max_num_seqs": 1, "enable_prefix_caching": False}
COMMAND = [PYTHON, "-m", "harness", "run"]
END = "<|end|>"
CONCURRENCY = 2
SPREAD = "0.3"  # of the weights, so that answers depend on the prompts
TIMINGS = ("run", "started_at", "ended_at", "latency_s", "cached")

SHAPES = {
    "generation with filters": ("text", ["filtered"]),
    "multiple choice": ("text", ["plain_choice", "normalised_choice", "mutual_information"]),
    "rolling perplexity": ("text", ["rolling"]),
    "few-shot examples": ("text", ["fixed_shots", "sampled_shots"]),
    "groups with weights": ("text", ["weighed"]),
    "several metrics": ("free", ["many_metrics", "choice_metrics"]),
    "majority vote": ("repeats", ["majority"]),
    "chat": ("chat", ["chat"]),
    "chat template": ("template", ["chat", "filtered", "plain_choice"]),
    "own code": ("free", ["own_code"]),
    "a folder's tag": ("text", ["tagged"]),
    "windows of a long text": ("windows", ["rolling"]),
}
"""The evaluation that each shape is in, and its tasks."""


class Evaluation(NamedTuple):
    """How lm-eval and the harness are asked for the same."""

    theirs: Mapping[str, Any]
    task: Mapping[str, Any]
    run: Mapping[str, Any] = {}
    form: str = ", structured_outputs: {regex: ' ?(It is )?[0-3]( or [0-3])?'}"  # of answers


TURNS = {"apply_chat_template": True, "fewshot_as_multiturn": True, "system_instruction": "Hi."}
EVALUATIONS = {
    "text": Evaluation({}, {"prefix_token": END}),
    "free": Evaluation({}, {}, form=""),
    "windows": Evaluation(
        {"model_args": {"max_length": 32}}, {"prefix_token": END, "max_length": 32}
    ),
    "repeats": Evaluation(
        {"options": {"gen_kwargs": {"temperature": 1.0}}, "seeds": {}},
        {},
        {"samples": 3, "decoding": {"temperature": 1.0}},
    ),
    "chat": Evaluation(
        {
            "model": "local-chat-completions",
            "options": {**TURNS, "gen_kwargs": {"temperature": 0.9}},
        },
        TURNS,
        {
            "model": {"backend": "openai"},
            "decoding": {"temperature": 0.9, "extra": {"seed": 1234}},  # lm-eval's
        },
    ),
    "template": Evaluation(
        {"options": {**TURNS, "gen_kwargs": {"until": ["\n\n"]}}},  # vLLM refuses a chat's five
        {**TURNS, "apply_chat_template": "chat.jinja"},
        {"decoding": {"stop": ["\n\n"]}},
    ),
}


class Both(NamedTuple):
    """What the two found, by task or group, what they sent, and our attempts."""

    theirs: Mapping[str, Mapping[str, Any]]
    ours: Mapping[str, Mapping[str, float]]
    their_texts: set[str]
    our_texts: set[str]
    attempts: list[dict[str, Any]]


class Server(NamedTuple):
    """A relay to vLLM, with the model's folder, and the evaluations that are done."""

    relay: Relay
    root: str  # of the relay
    model: Path
    done: dict[str, Both]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = made(tmp_path_factory.mktemp("model"), SPREAD)
    with server(model, tmp_path_factory.mktemp("server"), ALONE) as (url, _):
        relay = Relay(url)
        with serving(relay) as root:
            yield Server(relay, root, model, {})


def prepared(folder: Path, tiny: Server, name: str, tasks: list[str]) -> list[str | Path]:
    """Write the tasks and a run file into a folder, and return the command that runs it."""
    asked = EVALUATIONS[name]
    write(folder, documents=24, totals=4, generation=asked.form)
    (folder / "chat.jinja").write_bytes((tiny.model / "chat_template.jinja").read_bytes())
    more = {"limits": {"concurrency": CONCURRENCY}, **asked.run}
    more["model"] = {"preset": "vllm", "name": "tiny", **more.get("model", {})}
    return [*COMMAND, run_file(folder, tiny.root, {"task": tasks, **asked.task}, **more)]


def attempts(folder: Path) -> list[dict[str, Any]]:
    """The attempts of a run without what differs in each run."""
    lines = (folder / "runs" / "run" / "attempts.jsonl").read_bytes().splitlines()
    found = [msgspec.json.decode(line) for line in lines]
    for one in found:
        for name in TIMINGS:
            one.pop(name, None)
    return sorted(found, key=lambda one: (one["instance"], one["sample"]))


def both(tiny: Server, name: str, folder: Path) -> Both:
    """Evaluate the tasks of all shapes of an evaluation by both, once."""
    if name in tiny.done:
        return tiny.done[name]
    tasks = sorted({task for shape, of in SHAPES.values() if shape == name for task in of})
    folder.mkdir()
    tiny.relay.release()
    run(folder, *prepared(folder, tiny, name, tasks))
    our_bodies = tiny.relay.bodies
    asked = {"model": "local-completions", "options": {}, **EVALUATIONS[name].theirs}
    path = "chat/completions" if "chat" in asked["model"] else "completions"
    args = {"model": "tiny", "base_url": f"{tiny.root}/v1/{path}", **asked.get("model_args", {})}
    if path == "completions":
        args |= {"tokenizer": str(tiny.model), "tokenized_requests": "seeds" not in asked}
    if "seeds" in asked:
        asked["seeds"] = {body["prompt"]: [] for body in our_bodies}
        for body in our_bodies:
            asked["seeds"][body["prompt"]].append(body["seed"])
    asked |= {"model_args": args, "include_path": str(folder / "tasks"), "tasks": tasks}
    tiny.relay.release()
    theirs = lm_eval(folder, asked, PYTHON)
    found = Both(
        theirs,
        aggregates(folder),
        texts(tiny, tiny.relay.bodies),
        texts(tiny, our_bodies),
        attempts(folder),
    )
    return tiny.done.setdefault(name, found)


def texts(tiny: Server, bodies: list[dict[str, Any]]) -> set[str]:
    """All texts of requests. lm-eval sends most of them as the numbers of their tokens."""
    found = set()
    for body in bodies:
        sent = body["prompt"] if "prompt" in body else json.dumps(body["messages"])
        for one in [sent] if isinstance(sent, str) else sent:
            found.add(one if isinstance(one, str) else decoded(tiny.root, tuple(one)))
    return found


@cache
def decoded(root: str, tokens: tuple[int, ...]) -> str:
    body = {"model": "tiny", "tokens": list(tokens)}
    return str(httpx2.post(f"{root}/detokenize", json=body).json()["prompt"])


@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_same_texts_are_sent(name: str, tiny: Server, tmp_path: Path) -> None:
    found = both(tiny, name, tmp_path / name)
    assert found.our_texts == found.their_texts
    assert len(found.our_texts) >= 24


@pytest.mark.parametrize("shape", SHAPES)
def test_metrics_are_those_of_lm_eval(
    shape: str, tiny: Server, tmp_path: Path, figures: list[str]
) -> None:
    name, tasks = SHAPES[shape]
    found = both(tiny, name, tmp_path / name)
    told = {}
    for task in found.ours:
        if task in tasks or (tasks == ["tagged"] and task.startswith("tagged")):
            assert_equal(found.theirs[task], found.ours[task])
            for metric, value in found.ours[task].items():
                if metric != "sample_len":
                    told[f"{task} {metric}"] = (found.theirs[task][metric], value)
    figures.append(f"{shape}: " + "; ".join(f"{k} {a} / {b}" for k, (a, b) in told.items()))
    assert any(value not in (0, 1) for _, value in told.values()), "or any answer would do"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_that_is_killed_and_resumed_is_the_same(
    shape: str, tiny: Server, tmp_path: Path
) -> None:
    name, tasks = SHAPES[shape]
    expected = both(tiny, name, tmp_path / name)
    folder = tmp_path / "killed"
    folder.mkdir()
    command = prepared(folder, tiny, name, tasks)
    tags = ("tagged_a", "tagged_b") if tasks == ["tagged"] else ()
    asked = [
        one
        for one in expected.attempts
        if one["groups"]["task"] in (*tasks, *tags) or one["groups"].get("group") in tasks
    ]
    calls = len({one["call_id"] for one in asked})
    half = calls // 2
    tiny.relay.hold(after=half)
    # All that passed is recorded, and these calls are in flight.
    kill(folder, *command, when=lambda: tiny.relay.held == CONCURRENCY and recorded(folder) >= half)
    assert len(attempts(folder)) < len(asked)
    tiny.relay.release()
    run(folder, *command)
    assert attempts(folder) == asked
    assert len(tiny.relay.bodies) == calls - half  # nothing but the calls in flight again
    metrics = aggregates(folder)
    assert metrics == {name: expected.ours[name] for name in metrics}


def test_an_engine_in_this_process_has_the_same_log_likelihoods_and_computes_contexts_once(
    tiny: Server, tmp_path: Path, figures: list[str]
) -> None:
    tasks = ["plain_choice", "normalised_choice", "sampled_shots", "rolling"]
    benches = []
    for caching in (False, True):  # with a cache of replies each
        folder = tmp_path / f"caching_{caching}"
        folder.mkdir()
        own = {"include_path": str(write(folder, documents=24, totals=4)), "prefix_token": END}
        engine = {**ALONE, "enable_prefix_caching": caching}
        benches.append(bench := Bench(folder, tiny.model, "vllm_engine"))
        bench.run(
            {
                "task": {"name": "lm_eval", "task": tasks, **own},
                "model": {**bench.model, "protocol": "completions", "engine": engine},
                "variants": {
                    "texts": {},
                    "windows": {"task.task": "rolling", "task.max_length": 32},
                    # The prefix cache now has the beginnings of texts, of which all tokens count.
                    "long": {"task.task": "rolling", "task.max_length": 80},
                },
            }
        )
    alone, cached = benches
    texts, windows = (both(tiny, name, tmp_path / name).theirs for name in ("text", "windows"))
    for name in tasks:
        assert_equal(texts[name], alone.metrics("texts")["aggregates"][name])
    assert_equal(windows["rolling"], alone.metrics("windows")["aggregates"]["rolling"])
    for variant in ("texts", "windows", "long"):
        expected = pytest.approx(log_likelihoods(alone, variant), abs=1e-3)
        assert log_likelihoods(cached, variant) == expected
    usage = cached.metrics("texts")["usage"]
    share = usage["cached_input_tokens"] / usage["input_tokens"]
    figures.append(f"vllm_engine: {share:.0%} of the tokens of contexts and answers were cached")
    assert share > 0.5


def log_likelihoods(bench: Bench, variant: str) -> list[float]:
    lines = sorted(bench.attempts(variant), key=lambda one: one["instance"])
    return [total for one in lines for total, *_ in json.loads(one["text"])]
