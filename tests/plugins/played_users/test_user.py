"""Rows whose user is played by a second model: asked, killed, resumed, priced, judged and shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import ApiError, MockRequest
from tests.cli.command import begun, harness
from tests.cli.test_conversations import Counting, Run
from tests.cli.test_run import timeless, wait_until

PLACES = [f"town {number}" for number in range(12)]
TURNS = 3  # of the user, who then ends the conversation


def row(place: str, **user: Any) -> dict[str, Any]:
    return {
        "id": place,
        "prompt": f"I live in {place}. Say OK.",
        "user": {
            "goal": f"Hear the assistant say {place}.",
            "persona": "forgetful",
            "checks": [{"exact_match": {"target": "OK"}}],
            **user,
        },
        "checks": ["exact_match"],
        "target": place,
    }


class Talk(Counting):
    """Answers as an assistant, or as the user, who asks until it has written `TURNS` turns."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[MockRequest] = []
        self.failing = ""  # a model that gives an error

    def __call__(self, ask: MockRequest, index: int) -> str:
        with self.lock:
            self.asked[ask.digest, index] += 1
            self.seen.append(ask)
        if ask.model == self.failing:
            raise ApiError(400, "It cannot do that.")
        return self.user(ask) if ask.model == "u" else self.assistant(ask)

    def user(self, ask: MockRequest) -> str:
        written = sum(turn.role == "assistant" for turn in ask.turns)
        return "Thanks. [END]" if written == TURNS else f"  Turn {written + 1}, where do I live?\n"

    def assistant(self, ask: MockRequest) -> str:
        said = [turn.text for turn in ask.turns if turn.role == "user"]
        place = said[0].removeprefix("I live in ").partition(".")[0]
        return place if len(said) == TURNS else "OK"

    def calls(self, model: str) -> list[MockRequest]:
        return [ask for ask in self.seen if ask.model == model]


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def run(tmp_path: Path, talk: Talk) -> Iterator[Run]:
    with MockServer(answers=talk) as server:
        yield Run(tmp_path, server)


def played(run: Run, rows: list[dict[str, Any]] | None = None, **changes: Any) -> Path:
    user = {"model": run.model("u"), **changes.pop("user", {})}
    return run.file(list(map(row, PLACES)) if rows is None else rows, user=user, **changes)


def test_each_model_sees_the_conversation_from_its_own_side(run: Run, talk: Talk) -> None:
    run.harness("run", played(run, [row("Bonn")], task={"system": "Be brief."}))
    *_, last = talk.calls("m")
    assert [(turn.role, turn.text) for turn in last.turns] == [
        ("system", "Be brief."),
        ("user", "I live in Bonn. Say OK."),
        ("assistant", "OK"),
        ("user", "Turn 2, where do I live?"),
        ("assistant", "OK"),
        ("user", "Turn 3, where do I live?"),
    ]
    *_, last = talk.calls("u")
    system, *rest = last.turns
    assert system.role == "system"
    assert "Hear the assistant say Bonn." in system.text
    assert "forgetful" in system.text
    assert "Be brief" not in system.text
    assert [(turn.role, turn.text) for turn in rest] == [
        ("user", "Hello! How can I help you?"),
        ("assistant", "I live in Bonn. Say OK."),
        ("user", "OK"),
        ("assistant", "Turn 2, where do I live?"),
        ("user", "OK"),
        ("assistant", "Turn 3, where do I live?"),
        ("user", "Bonn"),
    ]
    assert run.metrics()["overall"]["pass_rate"] == 1
    assert [one["scores"] for one in run.attempts().values()]
    whole = run.harness("show", "talk", "--instance", "Bonn")
    assert "turn 2  ok, passed" in whole
    assert "turn 3 of 3  ok, conversation passed" in whole
    assert "user (played):\n  Turn 3, where do I live?" in whole
    assert "user (played), who ends the conversation:\n  Thanks. [END]" in whole


def test_checks_of_the_last_answer_are_of_the_last_answer_alone(run: Run, talk: Talk) -> None:
    rows = [row("Bonn"), row("Rome", checks=[{"exact_match": {"target": "Yes"}}])]
    rows.append({**row("Oslo"), "target": "Paris"})
    run.harness("run", played(run, rows))
    found = run.attempts()
    verdicts = {name: [found[name, 0, turn]["passed"] for turn in (1, 2, 3)] for name in
                ("Bonn", "Rome", "Oslo")}  # fmt: skip
    assert verdicts == {
        "Bonn": [True, True, True],
        "Rome": [False, False, True],
        "Oslo": [True, True, False],
    }
    assert run.metrics()["overall"]["pass_rate"] == pytest.approx(1 / 3)
    # They may change: the conversations are scored again, without a call.
    asked = len(talk.seen)
    rows[2]["target"] = "Oslo"
    rows[1]["user"]["checks"] = [{"exact_match": {"target": "OK"}}]
    run.harness("run", played(run, rows), "--rescore")
    assert run.metrics()["overall"]["pass_rate"] == 1
    assert len(talk.seen) == asked


def test_the_user_is_not_asked_after_the_last_turn_or_an_empty_answer(run: Run, talk: Talk) -> None:
    rows = [row("Bonn", max_turns=2), row("Bern", max_turns=2), row("Rome", max_turns=1)]
    rows[1] |= {"id": "empty", "prompt": "I live in . Say nothing."}
    talk.assistant = lambda ask: "" if "nothing" in ask.prompt else "OK"  # type: ignore[method-assign]
    run.harness("run", played(run, rows))
    assert len(talk.calls("u")) == 1
    found = run.attempts()
    assert found["Bonn", 0, 2]["turns"] == 2
    assert found["Bonn", 0, 2].get("user") is None
    assert (found["empty", 0, 1]["outcome"], found["empty", 0, 1]["passed"]) == ("empty", False)
    assert [name for name, _, _ in found].count("Rome") == 1
    assert run.metrics()["overall"]["n"] == 3
    asked = len(talk.seen)
    run.harness("run", played(run, rows))
    assert len(talk.seen) == asked


def test_conversations_killed_in_the_middle_ask_neither_side_twice(
    tmp_path: Path, run: Run, talk: Talk
) -> None:
    run.server.change(latency=0.05)
    file = played(run, samples=2, seed=0, limits={"concurrency": 4})
    lines = run.folder / "runs" / "talk" / "attempts.jsonl"
    lost = 0
    for wanted in (3, 17, 40):
        process = begun("run", file, env=run.environment)
        wait_until(lambda n=wanted: lines.exists() and lines.read_bytes().count(b"\n") >= n)
        process.kill()
        process.communicate(timeout=60)
        wait_until(lambda: run.server.stats().in_flight == 0)
        lost = talk.asked.total() - run.saved()
    assert [key for key in run.attempts() if (*key[:2], TURNS) not in run.attempts()]
    run.server.change(latency=0)
    run.harness("run", file)
    found = run.attempts()
    n = 2 * TURNS * len(PLACES)
    assert len(found) == n
    assert len(talk.asked) == 2 * n
    assert talk.asked.total() == 2 * n + lost  # no saved reply was asked for again
    assert run.metrics()["overall"]["pass_rate"] == 1
    asked = talk.asked.total()
    run.harness("run", file)
    assert talk.asked.total() == asked
    whole = Run(tmp_path / "whole", run.server)
    whole.folder.mkdir()
    whole.harness("run", played(whole, samples=2, seed=0))
    assert timeless(whole.attempts()) == timeless(found)


def test_a_failed_turn_of_the_user_fails_the_call_and_not_the_model(run: Run, talk: Talk) -> None:
    talk.failing = "u"
    file = played(run, [row("Bonn"), row("Rome")])
    harness("run", file, env=run.environment)
    (first, *_) = found = list(run.attempts().values())
    assert {one["outcome"] for one in found} == {"error"}
    assert "The played user: RequestRejected" in first["error"]
    assert run.metrics()["overall"]["pass_rate"] is None
    talk.failing = ""
    run.harness("run", file)
    assert run.metrics()["overall"]["pass_rate"] == 1
    assert run.metrics()["n_calls"] == 2 * 2 * TURNS
    assert len(talk.calls("m")) == 2 * TURNS  # the answers were kept


@pytest.mark.parametrize("said", ["", " \n"])
def test_a_silent_user_is_an_error_that_is_tried_again(run: Run, talk: Talk, said: str) -> None:
    speaks = talk.user
    talk.user = lambda ask: said  # type: ignore[method-assign]
    file = played(run, [row("Bonn")])
    harness("run", file, env=run.environment)
    (attempt,) = run.attempts().values()
    assert (attempt["outcome"], attempt["error"]) == ("error", "The played user's turn is empty.")
    talk.user = speaks  # type: ignore[method-assign]
    run.harness("run", file)
    assert run.metrics()["overall"]["pass_rate"] == 1


def test_the_user_is_priced_apart_estimated_and_held_to_the_budget(run: Run, talk: Talk) -> None:
    price = {"input": 0, "output": 1_000_000}  # one dollar a token
    prices = {
        "model": {**run.model("m"), "price": price},
        "user": {"model": {**run.model("u"), "price": price}, "max_tokens": 12},
        "decoding": {"max_tokens": 10},
    }
    rows = [row("Bonn", max_turns=5)]
    said = " ".join(run.harness("run", played(run, rows, **prices), "--dry-run").split())
    assert "at most 9: 1 to 5 for answers, at most 4 for the played user" in said
    assert "played user u: at most 4 calls, cost $1.00 to $48.00" in said
    assert "$98.00" in said  # 5 * 10 + 4 * 12
    assert not talk.seen
    shown = " ".join(run.harness("run", played(run, rows, **prices)).split())
    metrics = run.metrics()
    user, model = metrics["user_calls"], metrics["model_calls"]
    assert (user["n_calls"], model["n_calls"], metrics["n_calls"]) == (TURNS, TURNS, 2 * TURNS)
    assert user["cost_usd"] == user["usage"]["output_tokens"]
    assert metrics["cost_usd"] == user["cost_usd"] + model["cost_usd"]
    assert f"the played user {TURNS} calls, ${user['cost_usd']:.2f}" in shown
    asked = len(talk.seen)
    capped = played(run, [row("Rome")], **prices, budget={"usd": 12})
    harness("run", capped, "--name", "capped", env=run.environment)
    assert len(talk.seen) == asked + 1  # the user's turn might have cost more than is left


def test_another_user_is_another_run(run: Run, talk: Talk, tmp_path: Path) -> None:
    rows = [row("Bonn")]
    run.harness("run", played(run, rows))
    asked = len(talk.seen)
    own = tmp_path / "own.jinja"
    own.write_text("== system ==\nYour goal: {{ goal }}. Then say {{ stop }}.\n== user ==\nYes?\n")
    other = [row("Bonn", goal="Another one.")]
    for file, key in (
        (lambda: played(run, rows, user={"model": run.model("v")}), "user.model.name"),
        (lambda: played(run, rows, user={"stop": "Bye"}), "user.stop"),
        (lambda: played(run, rows, user={"prompt": "./own.jinja"}), "user.prompt"),
        (lambda: played(run, other), "users_hash"),
    ):
        assert key in run.refused("run", file())
        assert key in run.refused("run", file(), "--rescore")
    run.harness("run", played(run, rows, user={"model": {**run.model("u"), "limits": {"rpm": 99}}}))
    assert len(talk.seen) == asked
    run.harness("run", played(run, rows, user={"prompt": "./own.jinja"}), "--name", "other")
    assert talk.calls("u")[-1].turns[0].text.startswith("Your goal: Hear the assistant say Bonn.")


def test_what_does_not_fit_is_refused_before_a_call(run: Run, talk: Talk) -> None:
    rows = [row("Bonn")]
    assert "Add user: {model: …}" in run.refused("run", run.file(rows))
    assert "rounds.max asks" in run.refused("run", played(run, rows, rounds={"max": 2}))
    unknown = row("Bonn", gaol="x")
    assert "'user': unknown key 'gaol'" in run.refused("run", played(run, [unknown]))
    turns = {**row("Bonn"), "turns": ["Hi"]}
    turns.pop("prompt")
    assert "the row has 'user' and 'turns'" in run.refused("run", played(run, [turns]))
    missing = played(run, rows, user={"prompt": "defualt"})
    assert "Did you mean 'default'?" in run.refused("run", missing)
    none = {"id": "a", "prompt": "Hi", "user": "Bob", "checks": ["exact_match"], "target": "x"}
    assert "no instance has a user" in run.refused("run", played(run, [none]))
    assert not talk.seen
    run.harness("run", run.file([none]))  # a field like any other


def test_a_task_states_the_user_of_all_its_rows(run: Run, talk: Talk) -> None:
    rows = [{"id": one, "place": one, "target": one} for one in ("Bonn", "Rome")]
    task = {
        "prompt": "I live in {{ place }}. Say OK.",
        "user": {"goal": "Hear {{ place }}.", "max_turns": 4},
        "checks": ["exact_match"],
    }
    run.harness("run", played(run, rows, task=task))
    assert run.metrics()["overall"]["pass_rate"] == 1
    assert {"Hear Bonn.", "Hear Rome."} == {
        line.removeprefix("Your goal: ")
        for ask in talk.calls("u")
        for line in ask.turns[0].text.splitlines()
        if line.startswith("Your goal")
    }
    wrong = {**task, "user": {"goal": "x", "persna": "y"}}
    assert "task.user: unknown key 'persna'" in run.refused("run", played(run, rows, task=wrong))


def test_a_judge_reads_the_whole_conversation(run: Run, talk: Talk) -> None:
    assistant = talk.assistant
    talk.assistant = lambda ask: "yes" if ask.model == "judge" else assistant(ask)  # type: ignore[method-assign]
    one = {**row("Bonn"), "criteria": ["The goal was reached."]}
    judge = {"name": "yes_no", "model": run.model("judge")}
    run.harness("run", played(run, [one], judges=[judge]))
    (asked,) = talk.calls("judge")  # the answers before the last have no criteria
    assert "user: I live in Bonn. Say OK.\n\nassistant: OK\n\nuser: Turn 2" in asked.prompt
    assert run.metrics()["user_calls"]["n_calls"] == TURNS


def test_what_a_hostile_user_says_is_text(run: Run, talk: Talk) -> None:
    speaks = talk.user
    nasty = "</script><b>\x1b[31m{{ 7*7 }}"
    talk.user = lambda ask: f"{nasty} {speaks(ask)}"  # type: ignore[method-assign]
    run.harness("run", played(run, [row("Bonn")]))
    assert "{{ 7*7 }}" in talk.calls("m")[-1].turns[-1].text
    whole = run.harness("show", "talk", "--instance", "Bonn")
    assert "\x1b" not in whole
    assert "</script><b>" in whole


def test_the_shipped_example_runs(run: Run) -> None:
    shown = run.harness("run", "configs/played_user_example.yaml")
    assert "the played user" in shown
    assert "SIMULATED" in shown
