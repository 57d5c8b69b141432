"""Attempts that are read one by one have what judges say of them."""

from pathlib import Path

import msgspec
import pytest

from harness.errors import DataInvalid
from harness.records import SCHEMA_VERSION, Attempt, Score
from harness.store.constraints import read_findings
from harness.store.index import AttemptIndex, read_attempts
from harness.store.judgements import Judgement, Register, RegisteredJudge, text_hash, write_register

MET = {"constraint": "is short", "kind": "length", "passed": True}


def attempt(instance: str, text: str, **more: object) -> Attempt:
    return Attempt(
        SCHEMA_VERSION, instance, 0, 1, {}, instance, {}, "ok", 0.0, 1.0, text=text,
        **{"passed": True, "scores": {"rule": Score(True, True)}, **more},  # type: ignore[arg-type]
    )  # fmt: skip


def judgement(instance: str, text: str, passed: bool, judge: str = "j") -> Judgement:
    score = Score(passed, passed, "because", {"constraints": [{**MET, "passed": passed}]})
    return Judgement(
        SCHEMA_VERSION, judge, instance, 0, 1, text_hash(text), "ok", 0.0, 1.0,
        scores={f"{judge}.strict": score},
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    attempts = [attempt("a", "one"), attempt("b", "two"), attempt("c", "three")]
    said = [
        judgement("b", "two", True),
        judgement("a", "an older answer", False),
        judgement("b", "two", False),  # the last word
        judgement("a", "one", True),
        judgement("c", "three", False, judge="gone"),
    ]
    register = Register(judged=("ok",), judges={"j": RegisteredJudge({}, decides=True)})
    write_register(tmp_path, register)
    for name, lines in {"attempts.jsonl": attempts, "judgements.jsonl": said}.items():
        (tmp_path / name).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
    return tmp_path / "attempts.jsonl"


def test_scores_and_verdicts_are_those_of_the_columns(run: Path) -> None:
    found = list(AttemptIndex(run).read(Attempt))
    assert [(one.instance, one.passed) for one in found] == [("a", True), ("b", False), ("c", None)]
    assert [set(one.scores) for one in found] == [{"rule", "j.strict"}] * 2 + [{"rule"}]
    assert found[1].scores["j.strict"].reason == "because"
    table = read_attempts(run)
    by_digest = dict(zip(table.instances.digest.tolist(), table.passed.tolist(), strict=True))
    assert sorted(by_digest.values()) == [-1, 0, 1]


def test_constraints_of_judges_are_found(run: Path) -> None:
    found = read_findings(AttemptIndex(run))
    assert len(found.table) == 2
    assert int(found.table.passed.sum()) == 1
    assert found.without == 1


def test_a_damaged_line_is_named(run: Path) -> None:
    with run.with_name("judgements.jsonl").open("ab") as file:
        file.write(b'{"instance": 5}\n')
    with pytest.raises(DataInvalid, match=r"judgements\.jsonl, line 6"):
        list(AttemptIndex(run).read(Attempt))
