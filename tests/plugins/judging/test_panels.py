from pathlib import Path
from typing import Any

from harness.plugins.judging.page import PanelFindings, read_panels
from harness.records import Attempt, Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import (
    Judgement,
    Register,
    RegisteredJudge,
    text_hash,
    write_register,
)
from tests.report.attempts import attempt

PANEL = RegisteredJudge(section={"of": ["a", "b", "c"]})


def found(folder: Path, scores: list[Score]) -> list[PanelFindings]:
    """The findings on a panel that gave each of several answers one of these scores."""
    with JsonLinesWriter(folder / "attempts.jsonl") as writer:
        attempts: list[Attempt] = [attempt(f"case/{at}") for at in range(len(scores))]
        for one in attempts:
            writer.append(one)
    judges = {name: RegisteredJudge(section={"model": {}}) for name in "abc"}
    write_register(folder, Register(judged=("ok",), judges={**judges, "jury": PANEL}))
    with JsonLinesWriter(folder / "judgements.jsonl") as writer:
        for one, score in zip(attempts, scores, strict=True):
            made = {"jury.strict": score}
            key: Any = ("jury", one.instance, one.sample, one.round, text_hash(one.text or ""))
            writer.append(Judgement(1, *key, "ok", 0.0, 1.0, scores=made))
    return read_panels(AttemptIndex(folder / "attempts.jsonl"))


def on_criteria(passed: bool | None, **votes: object) -> Score:
    criterion = {"constraint": "It rhymes.", "passed": passed, "panel": votes}
    return Score(passed, passed, "", {"constraints": [criterion]})


def test_how_often_judges_disagree_on_criteria(tmp_path: Path) -> None:
    (one,) = found(
        tmp_path,
        [
            on_criteria(True, a=True, b=True, c=True),
            on_criteria(True, a=True, b=True, c=False),
            on_criteria(False, a=False, b=0.2, c=0.7),  # probabilities of yes
            on_criteria(None, a=True, b=False, c=None),
        ],
    )
    assert (one.score, one.split.mean, one.split.n) == ("jury.strict", 0.75, 4)
    assert [member.judge for member in one.members] == ["a", "b", "c"]
    a, _, c = one.members
    assert (a.yes.mean, a.yes.n, a.agrees.mean, a.agrees.n) == (0.75, 4, 1.0, 3)
    assert (c.yes.n, c.agrees.mean) == (3, 1 / 3)


def test_verdicts_on_whole_answers(tmp_path: Path) -> None:
    votes = {"panel": {"a": True, "b": False, "c": True}}
    (one,) = found(tmp_path, [Score(True, True, "", votes)])
    assert (one.split.mean, one.split.n) == (1.0, 1)
    assert [member.agrees.mean for member in one.members] == [1.0, 0.0, 1.0]


def test_means_of_numbers_have_no_verdicts_to_disagree_on(tmp_path: Path) -> None:
    assert found(tmp_path, [Score(6.5, None, "", {"panel": {"a": 6, "b": 7}})]) == []
