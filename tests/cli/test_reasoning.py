"""Reasoning is separated from answers on every path: providers, recordings, functions, judges."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.store.files import write_atomically
from tests.cli.command import harness, mistake
from tests.installed import has_backend
from tests.unsealed import unseal

HARMONY = (
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Blue"
)
CASES: dict[str, tuple[str, str, str, str | None]] = {
    "think": ("A?", "<think>\nRed, or green.\n</think>\n\nBlue", "Blue", "Red, or green."),
    "harmony": ("B?", HARMONY, "Blue", "Hm."),
    "prefilled": ("C?", "Red.</think>Blue", "Blue", "Red."),
    "empty": ("D?", "<think>\n\n</think>\n\n", "", ""),
    "unclosed": ("E?", "<think>Blue", "", "Blue"),
    "mentioned": ("F? <reasoning>", "<reasoning>Hm.</reasoning>Blue",
                  "<reasoning>Hm.</reasoning>Blue", None),
    "unknown": ("G?", "<scratchpad>Hm.</scratchpad>Blue", "<scratchpad>Hm.</scratchpad>Blue", None),
    "plain": ("H?", "Blue", "Blue", None),
}  # fmt: skip
"""For each case: prompt, reply, answer and reasoning."""
PASS = {"think", "harmony", "prefilled", "plain"}
WARNING = "1 answer begins with <scratchpad>, which is not known as a mark of reasoning."


def reply(request: MockRequest, _: int) -> str:
    return next(text for prompt, text, *_ in CASES.values() if prompt == request.prompt)


FUNCTION = """
REPLIES = {replies}

def answer(prompt: str) -> str:
    return REPLIES[prompt]
"""


class Place:
    """A folder with rows, and the runs that are made in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"HARNESS_RUNS_DIR": str(folder / "runs")}
        self.environment |= {"HARNESS_CACHE_DIR": str(folder / "cache"), "OPENAI_API_KEY": "k"}
        rows = [
            {"id": name, "prompt": prompt, "target": "Blue"} for name, (prompt, *_) in CASES.items()
        ]
        self.write("rows.jsonl", *rows)
        self.write(
            "answers.jsonl",
            *(
                {"instance": name, "rounds": [{"text": text}]}
                for name, (_, text, *_) in CASES.items()
            ),
        )
        replies = {prompt: text for prompt, text, *_ in CASES.values()}
        (folder / "mine.py").write_text(FUNCTION.format(replies=replies))

    def write(self, name: str, *rows: dict[str, Any]) -> None:
        (self.folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def run(
        self, model: dict[str, Any], *options: str, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        task = {"name": "jsonl", "path": "rows.jsonl", "checks": ["exact_match"]}
        (self.folder / "r.yaml").write_text(json.dumps({"task": task, "model": model} | more))
        return self.harness("run", "r.yaml", *options)

    def harness(self, *words: str) -> subprocess.CompletedProcess[str]:
        return harness(*words, cwd=self.folder, env=self.environment)

    @property
    def lines(self) -> list[dict[str, Any]]:
        path = self.folder / "runs/r/attempts.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def attempts(self) -> dict[str, dict[str, Any]]:
        return {line["instance"]: line for line in self.lines}

    def leave_reasoning_in(self) -> None:
        """Make the run one of an earlier version, which scored replies as they came."""
        unseal(self.folder / "runs/r")
        before = [
            attempt
            | {"text": CASES[attempt["instance"]][1], "reasoning": None, "outcome": "ok"}
            | {"passed": CASES[attempt["instance"]][1] == "Blue"}
            for attempt in self.lines
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in before)
        write_atomically(self.folder / "runs/r/attempts.jsonl", text.encode())


RECORDING = {"backend": "replay", "path": "answers.jsonl", "match": "instance"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(answers=reply) as started:
        yield started


def check_answers(attempts: dict[str, dict[str, Any]]) -> None:
    assert attempts.keys() == CASES.keys()
    for name, (_, _, answer, reasoning) in CASES.items():
        attempt = attempts[name]
        assert (attempt["text"], attempt["reasoning"]) == (answer, reasoning), name
        assert attempt["passed"] == (name in PASS), name
        assert attempt["outcome"] == ("ok" if answer else "empty"), name


BACKENDS = ["replay", "openai", "openai_completions", "litellm", "mine"]
INSTALLED = [name for name in BACKENDS if name == "mine" or has_backend(f"backend: {name}")]


@pytest.mark.parametrize("backend", INSTALLED)
def test_answers_of_all_backends_are_scored_without_reasoning(
    place: Place, server: MockServer, backend: str
) -> None:
    model: dict[str, Any] = {"backend": backend, "name": "m", "base_url": server.base_url}
    if backend == "replay":
        model = RECORDING
    elif backend == "mine":
        model = {"backend": "./mine.py"}
    elif backend == "litellm":
        pytest.importorskip("litellm")
        model = {"backend": "litellm", "name": "openai/m", "base_url": server.base_url}
    ended = place.run(model, decoding={"max_tokens": 500})
    assert ended.returncode == 0, ended.stderr
    check_answers(place.attempts())
    assert ended.stderr.count(WARNING) == 1
    if backend == "openai":  # the cache has the replies as they came
        more = ("--fresh", "-o", "model.reasoning=keep")
        ended = place.run(model, *more, decoding={"max_tokens": 500})
        assert server.stats().requests == len(CASES)
        assert place.attempts()["think"]["text"] == CASES["think"][1]
        assert WARNING not in ended.stderr


def test_feedback_on_a_recorded_answer_is_given_without_its_reasoning(place: Place) -> None:
    sent: list[list[tuple[str, str]]] = []

    def answer(request: MockRequest, _: int) -> str:
        sent.append([(turn.role, turn.text) for turn in request.turns])
        return "<think>Hm.</think>Red"

    with MockServer(answers=answer) as server:
        place.write("rows.jsonl", {"id": "think", "prompt": "A?", "target": "Blue"})
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        assert place.run(model).returncode == 0
        place.leave_reasoning_in()
        ended = place.run(model, rounds={"max": 2})
    assert ended.returncode == 0, ended.stderr
    assert sent[-1][1] == ("assistant", "Blue")


@pytest.mark.parametrize(
    ("reasoning", "message"),
    [
        ("think", "model.reasoning: must be keep, or a list of names and of pairs"),
        ("[]", "model.reasoning: must be keep, or a list of names and of pairs"),
        ("[[<a>]]", "model.reasoning: each item must be a name, or a pair"),
        ("[thnk]", "model.reasoning: there is no mark 'thnk'"),
    ],
)
def test_impossible_marks_are_refused(place: Place, reasoning: str, message: str) -> None:
    assert message in mistake(
        place.run({"backend": "./mine.py"}, "-o", f"model.reasoning={reasoning}")
    )


def test_reasoning_is_not_sent_back_in_later_rounds(place: Place) -> None:
    sent: list[list[tuple[str, str]]] = []

    def answer(request: MockRequest, _: int) -> str:
        sent.append([(turn.role, turn.text) for turn in request.turns])
        if len(request.turns) == 1:
            return "<think>I could write <reasoning>.</think>\n\nRed <reasoning>"
        return "<reasoning>Again.</reasoning>Blue"

    with MockServer(answers=answer) as server:
        place.write("rows.jsonl", {"id": "a", "prompt": "A?", "target": "Blue"})
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        ended = place.run(model, rounds={"max": 2})
    assert ended.returncode == 0, ended.stderr
    assert sent[1][1] == ("assistant", "Red <reasoning>")
    # The model's own answer, and feedback that quotes it, are no mentions.
    assert [(line["text"], line["passed"]) for line in place.lines] == [
        ("Red <reasoning>", False),
        ("Blue", True),
    ]


@pytest.mark.parametrize("votes", [1, None])
def test_a_judges_reply_is_read_without_its_reasoning(place: Place, votes: int | None) -> None:
    def answer(request: MockRequest, _: int) -> str:
        if request.model == "judge":
            return "<think>No? no.</think>\n\nYes"
        return "The mark is <think>."  # quoted in the judge's prompt: no mention

    with MockServer(answers=answer) as server:
        row = {"id": "a", "prompt": "A?", "criteria": ["It names a mark."]}
        place.write("rows.jsonl", row)
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        judge = {"name": "yes_no", "as": "nice", "model": model | {"name": "judge"}}
        judge |= {"votes": votes, "max_tokens": 50}
        checks = [{"judge": "nice"}]
        task = {"name": "jsonl", "path": "rows.jsonl", "checks": checks}
        ended = place.run(model, task=task, judges=[judge])
        assert ended.returncode == (0 if votes else 1), ended.stderr
        if votes:
            kept = place.run(
                model,
                "--fresh",
                task=task,
                judges=[judge | {"model": judge["model"] | {"reasoning": "keep"}}],
            )
            assert "1 of 1 samples have no verdict." in kept.stderr
            refused = mistake(place.run(model, task=task, judges=[judge]))
            assert "judges.nice.model.reasoning" in refused
            return
    judgement = json.loads((place.folder / "runs/r/judgements.jsonl").read_text())
    assert judgement["replies"] == ["Yes"]


def test_a_retry_draws_a_new_answer_after_reasoning_alone(place: Place) -> None:
    drawn: list[str] = []

    def answer(request: MockRequest, _: int) -> str:
        drawn.append(request.prompt)
        return "<think>Hm." if len(drawn) == 1 else "<think>Hm.</think>Blue"

    with MockServer(answers=answer) as server:
        place.write("rows.jsonl", {"id": "a", "prompt": "A?", "target": "Blue"})
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        place.run(model)
        place.run(model, "--fresh")
        assert len(drawn) == 1  # it was paid for
        assert place.attempts()["a"]["outcome"] == "empty"
        place.run(model, "--retry", "empty")
    assert len(drawn) == 2
    assert place.attempts()["a"]["text"] == "Blue"
