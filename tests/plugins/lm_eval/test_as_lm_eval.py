"""Runs of lm-eval's tasks beside lm-eval's own, against one server: texts and metrics are equal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.command import COMMAND
from tests.plugins.lm_eval.recorder import Recorder, serving
from tests.plugins.lm_eval.runs import (
    aggregates,
    assert_equal,
    kill,
    lm_eval,
    recorded,
    run,
    run_file,
)
from tests.plugins.lm_eval.shapes import NAMES, write

if find_spec("lm_eval") is None:
    pytest.skip("lm-eval is not installed: run scripts/test-exchange", allow_module_level=True)

END = "<|endoftext|>"
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
    '{% if not loop.last or add_generation_prompt %}{{ "\\n" }}{% endif %}{% endfor %}'
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


class Both(NamedTuple):
    """What lm-eval and the harness sent, and what they found, by task or group."""

    theirs: Mapping[str, Mapping[str, Any]]
    ours: Mapping[str, Mapping[str, float]]
    their_texts: list[str]
    our_texts: list[str]
    our_calls: int


def compared(
    folder: Path,
    asked: dict[str, Any],
    task: Mapping[str, Any],
    drawn: bool = False,
    killed: int = 0,
    **more: Any,
) -> Both:
    """Evaluate tasks by both. Our run may be killed after ``killed`` attempts, and resumed."""
    given: dict[str, Any] = {"model": "local-completions", "model_args": {}, "options": {}, **asked}
    given["include_path"] = str(write(folder))
    theirs, ours = Recorder(drawn=drawn), Recorder(drawn=drawn, latency=0.05 if killed else 0)
    with serving(theirs) as url:
        path = "chat/completions" if "chat" in given["model"] else "completions"
        args = {"base_url": f"{url}/v1/{path}"}
        if path == "completions":
            args |= {"tokenizer_backend": "remote", "tokenized_requests": False}
        args |= given["model_args"]
        found = lm_eval(folder, {**given, "model_args": args})
    with serving(ours) as url:
        command = [*COMMAND, "run", run_file(folder, url, task, **more)]
        if killed:
            kill(folder, *command, when=lambda: recorded(folder) >= killed)
        run(folder, *command)
    return Both(found, aggregates(folder), theirs.texts(), ours.texts(), len(ours.bodies))


SHAPES = [name for name in NAMES if name != "majority"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """All shapes with one answer to each document, in one evaluation by each of the two."""
    task = {"task": SHAPES, "prefix_token": END}
    return compared(tmp_path_factory.mktemp("plain"), {"tasks": SHAPES}, task)


@pytest.mark.parametrize("name", [*SHAPES, "leaf_small", "leaf_large"])
def test_each_shape_has_the_metrics_of_lm_eval(plain: Both, name: str) -> None:
    assert_equal(plain.theirs[name], plain.ours[name])


def test_the_same_texts_are_sent(plain: Both) -> None:
    assert set(plain.our_texts) == set(plain.their_texts)
    assert len(set(plain.our_texts)) > 200
    assert len(plain.our_texts) <= len(plain.their_texts)  # documents with one prompt share a call


def test_a_tag_stands_for_its_tasks(tmp_path: Path) -> None:
    found = compared(tmp_path, {"tasks": ["tagged"]}, {"task": "tagged"})
    assert found.ours.keys() == {"tagged_a", "tagged_b"}
    for name, metrics in found.ours.items():
        assert_equal(found.theirs[name], metrics)


def test_a_majority_of_repeated_answers(tmp_path: Path) -> None:
    more = {"samples": 3, "limits": {"concurrency": 1}}
    found = compared(tmp_path, {"tasks": ["majority"]}, {"task": "majority"}, drawn=True, **more)
    assert_equal(found.theirs["majority"], found.ours["majority"])
    assert found.our_texts == found.their_texts
    majority, first = (found.ours["majority"][f"exact_match,{name}"] for name in ("maj@3", "first"))
    assert majority != first


def test_a_killed_run_with_repeated_answers(tmp_path: Path) -> None:
    more = {"samples": 3, "limits": {"concurrency": 1}, "killed": 16}
    found = compared(tmp_path, {"tasks": ["majority"]}, {"task": "majority"}, **more)
    assert_equal(found.theirs["majority"], found.ours["majority"])
    assert len(found.our_texts) <= len(found.their_texts) + 1


@pytest.mark.parametrize("multiturn", [True, False])
def test_a_chat_with_shots_and_a_system_instruction(tmp_path: Path, multiturn: bool) -> None:
    options = {
        "apply_chat_template": True,
        "fewshot_as_multiturn": multiturn,
        "system_instruction": "You are terse.",
    }
    found = compared(
        tmp_path,
        {"tasks": ["chat"], "options": options, "model": "local-chat-completions"},
        {"task": "chat", **options},
        model={"backend": "openai"},
        killed=4,
        limits={"concurrency": 1},
    )
    assert_equal(found.theirs["chat"], found.ours["chat"])
    assert set(found.our_texts) == set(found.their_texts)
    assert len(found.our_texts) <= len(found.their_texts) + 1  # the call in flight is made again


def test_a_chat_template_as_plain_text(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text(TEMPLATE)
    asked = ["plain_choice", "filtered", "chat"]
    found = compared(
        tmp_path,
        {"tasks": asked, "options": {"apply_chat_template": True}, "template": TEMPLATE},
        {"task": asked, "apply_chat_template": "chat.jinja"},
    )
    for name in asked:
        assert_equal(found.theirs[name], found.ours[name])
    assert found.our_texts == found.their_texts


def test_a_long_text_is_scored_in_windows(tmp_path: Path) -> None:
    asked = {"tasks": ["rolling"], "model_args": {"max_length": 9}}
    task = {"task": "rolling", "prefix_token": END, "max_length": 9}
    found = compared(tmp_path, asked, task)
    assert_equal(found.theirs["rolling"], found.ours["rolling"])
    assert len(found.their_texts) > found.our_calls == 12


def test_other_shots_and_another_seed(tmp_path: Path) -> None:
    options = {"num_fewshot": 1, "fewshot_random_seed": 7}
    found = compared(
        tmp_path,
        {"tasks": ["sampled_shots"], "options": options},
        {"task": "sampled_shots", "num_fewshot": 1, "fewshot_seed": 7},
    )
    assert_equal(found.theirs["sampled_shots"], found.ours["sampled_shots"])
    assert found.our_texts == found.their_texts


def test_a_killed_run_continues_to_the_same_metrics(plain: Both, tmp_path: Path) -> None:
    write(tmp_path)
    recorder = Recorder(latency=0.02)
    task = {"task": SHAPES, "prefix_token": END}
    with serving(recorder) as url:
        command = [*COMMAND, "run", run_file(tmp_path, url, task, limits={"concurrency": 2})]
        kill(tmp_path, *command, when=lambda: recorded(tmp_path) >= 40)
        run(tmp_path, *command)
    assert set(recorder.texts()) == set(plain.our_texts)
    assert len(recorder.bodies) <= plain.our_calls + 2  # the calls in flight are made again
    assert aggregates(tmp_path) == plain.ours
    manifest = json.loads((tmp_path / "runs" / "run" / "manifest.json").read_text())
    assert len(manifest["sessions"]) == 2
