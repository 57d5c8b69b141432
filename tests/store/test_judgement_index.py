"""The index over judgements: what each judge said last of each text."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.records import SCHEMA_VERSION, Attempt, Score
from harness.store.index import AttemptIndex, read_attempts
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgement_index import JudgementIndex
from harness.store.judgements import Judgement, Register, RegisteredJudge, text_hash, write_register
from tests.store.test_judgements import judgement

names = st.tuples(
    st.sampled_from("jk"), st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 2)
)


def registered(folder: Path) -> None:
    judges = {name: RegisteredJudge({}) for name in "jk"}
    write_register(folder, Register(judged=("ok",), judges=judges))


@settings(max_examples=30)
@given(st.lists(st.tuples(names, st.sampled_from(["old", "new"])), max_size=30))
def test_the_last_line_of_each_judge_counts(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[tuple[str, str, int, int], str]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    registered(folder)
    last: dict[tuple[str, int, int, str], dict[str, float]] = {}
    with JsonLinesWriter(folder / "judgements.jsonl") as writer:
        for when, ((judge, instance, sample, round_), text) in enumerate(said):
            writer.append(
                judgement(
                    instance,
                    *(None,),
                    judge=judge,
                    sample=sample,
                    round_=round_,
                    text=text,
                    started_at=float(when),
                )
            )
            key = (instance, sample, round_, text)
            last.setdefault(key, {})[judge] = float(when)
    places = JudgementIndex(folder)
    for key, expected in last.items():
        found = places.read_latest(*key)
        assert {judge: one.started_at for judge, one in found.items()} == expected
    assert places.read_latest("a", 0, 1, "neither") == {}


def test_a_run_without_judgements_has_none(tmp_path: Path) -> None:
    assert JudgementIndex(tmp_path).read_latest("a", 0, 1, "x") == {}


def test_a_line_that_is_damaged_or_becomes_so_is_named(tmp_path: Path) -> None:
    registered(tmp_path)
    with JsonLinesWriter(tmp_path / "judgements.jsonl") as writer:
        writer.append(judgement("a"))
        writer.append(judgement("b"))
    path = tmp_path / "judgements.jsonl"
    places = JudgementIndex(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"instance":"b"', b'"instance":5  '))
    with pytest.raises(DataInvalid, match="line 2: not a judgement"):
        places.read_latest("b", 0, 1, "an answer")
    with pytest.raises(DataInvalid, match="line 2: not a judgement"):
        JudgementIndex(tmp_path)


MET = {"constraint": "is short", "kind": "length", "passed": True}


def attempt(instance: str, text: str, **more: object) -> Attempt:
    return Attempt(
        SCHEMA_VERSION, instance, 0, 1, {}, instance, {}, "ok", 0.0, 1.0, text=text,
        **{"passed": True, "scores": {"rule": Score(True, True)}, **more},  # type: ignore[arg-type]
    )  # fmt: skip


def verdict(instance: str, text: str, passed: bool, judge: str = "j") -> Judgement:
    score = Score(passed, passed, "because", {"constraints": [{**MET, "passed": passed}]})
    return Judgement(
        SCHEMA_VERSION, judge, instance, 0, 1, text_hash(text), "ok", 0.0, 1.0,
        scores={f"{judge}.strict": score},
    )  # fmt: skip


def judged_run(folder: Path) -> Path:
    """Write a run with judgements to a folder, and return the path of its attempts."""
    attempts = [attempt("a", "one"), attempt("b", "two"), attempt("c", "three")]
    said = [
        verdict("b", "two", True),
        verdict("a", "an older answer", False),
        verdict("b", "two", False),  # the last word
        verdict("a", "one", True),
        verdict("c", "three", False, judge="gone"),
    ]
    register = Register(judged=("ok",), judges={"j": RegisteredJudge({}, decides=True)})
    write_register(folder, register)
    for name, lines in {"attempts.jsonl": attempts, "judgements.jsonl": said}.items():
        (folder / name).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
    return folder / "attempts.jsonl"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return judged_run(tmp_path)


def test_scores_and_verdicts_are_those_of_the_columns(run: Path) -> None:
    found = list(AttemptIndex(run).read(Attempt))
    assert [(one.instance, one.passed) for one in found] == [("a", True), ("b", False), ("c", None)]
    assert [set(one.scores) for one in found] == [{"rule", "j.strict"}] * 2 + [{"rule"}]
    assert found[1].scores["j.strict"].reason == "because"
    table = read_attempts(run)
    by_digest = dict(zip(table.instances.digest.tolist(), table.passed.tolist(), strict=True))
    assert sorted(by_digest.values()) == [-1, 0, 1]


def test_a_damaged_line_is_named(run: Path) -> None:
    with run.with_name("judgements.jsonl").open("ab") as file:
        file.write(b'{"instance": 5}\n')
    with pytest.raises(DataInvalid, match=r"judgements\.jsonl, line 6"):
        list(AttemptIndex(run).read(Attempt))
