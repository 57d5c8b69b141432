"""What judges said, read with the attempts."""

from collections.abc import Collection, Mapping
from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid, StoreFailed
from harness.records import Attempt, Outcome, Score, Usage, verdict
from harness.store.calls import read_calls, read_payments
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex, read_attempts, read_instance
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import (
    FAILED_OUTCOMES,
    JudgeCall,
    JudgedAttempt,
    Judgement,
    JudgementOutcome,
    Register,
    RegisteredJudge,
    combined_verdict,
    read_register,
    text_hash,
    write_register,
)
from tests.columns import read_columns
from tests.store.test_index import attempt, write

PASS, FAIL, NONE = Score(True, True), Score(False, False), Score(0.5)
UNMADE = Score(None)


def judgement(
    instance: str = "a",
    score: Score | None = PASS,
    *,
    judge: str = "j",
    text: str = "an answer",
    outcome: JudgementOutcome = "ok",
    sample: int = 0,
    round_: int = 1,
    **changes: object,
) -> Judgement:
    made = Judgement(
        v=1,
        judge=judge,
        instance=instance,
        sample=sample,
        round=round_,
        attempt=text_hash(text),
        outcome=outcome,
        started_at=1.0,
        ended_at=2.0,
        scores={} if score is None or outcome != "ok" else {f"{judge}.good": score},
    )
    return msgspec.structs.replace(made, **changes)


def judged(
    folder: Path, attempts: list[Attempt], *said: Judgement, deciding: Mapping[str, bool]
) -> Path:
    outcomes: tuple[Outcome, ...] = ("ok", "unparseable")
    judges = {name: RegisteredJudge({}, decides) for name, decides in deciding.items()}
    write_register(folder, Register(judged=outcomes, judges=judges))
    (folder / "judgements.jsonl").unlink(missing_ok=True)
    with JsonLinesWriter(folder / "judgements.jsonl") as writer:
        for one in said:
            writer.append(one)
    return write(folder / "attempts.jsonl", *attempts)


def missing_of(
    path: Path, judges: tuple[str, ...], retried: Collection[JudgementOutcome] = FAILED_OUTCOMES
) -> list[Mapping[str, int]]:
    return list(AttemptIndex(path).missing_judgements(judges, retried).values())


@pytest.mark.parametrize(
    ("passed", "rules", "said", "found"),
    [
        (True, PASS, PASS, True),
        (True, PASS, FAIL, False),
        (False, FAIL, PASS, False),
        (True, PASS, NONE, True),
        (True, PASS, UNMADE, None),
        (False, FAIL, UNMADE, False),  # whatever the judge might have said
        (None, UNMADE, PASS, None),
        (None, UNMADE, FAIL, False),
        (None, NONE, PASS, True),
        (None, NONE, FAIL, False),
        (None, NONE, NONE, None),
    ],
)
def test_a_verdict_is_over_rules_and_judges(
    passed: bool | None, rules: Score, said: Score, found: bool | None, tmp_path: Path
) -> None:
    assert combined_verdict(passed, {"rule": rules}, [judgement(score=said)]) is found
    one = attempt(passed=passed, scores={"rule": rules})
    path = judged(tmp_path, [one], judgement(score=said), deciding={"j": True})
    assert read_attempts(path).passed.tolist() == [NOT_JUDGED if found is None else found]
    path = judged(tmp_path, [one], judgement(score=said), deciding={"j": False})
    assert read_attempts(path).passed.tolist() == [NOT_JUDGED if passed is None else passed]


def test_a_recorded_verdict_of_an_earlier_version_is_read_alike_by_columns_and_records(
    tmp_path: Path,
) -> None:
    scores = {"rule": FAIL, "words": UNMADE}  # failed beside one without a value: no verdict then
    assert combined_verdict(None, scores, [judgement(score=PASS)]) is None
    path = judged(
        tmp_path, [attempt(passed=None, scores=scores)], judgement(score=PASS), deciding={"j": True}
    )
    assert read_attempts(path).passed.tolist() == [NOT_JUDGED]


@pytest.mark.parametrize("outcome", ["unparseable", "refused", "empty", "error"])
def test_a_judge_that_could_not_is_no_zero(outcome: JudgementOutcome, tmp_path: Path) -> None:
    said = judgement(outcome=outcome)
    assert combined_verdict(True, {}, [said]) is None
    path = judged(tmp_path, [attempt()], said, deciding={"j": True})
    table = read_attempts(path)
    assert table.passed.tolist() == [NOT_JUDGED]
    assert not table.scores


def test_an_answer_that_no_judge_has_judged_yet_has_no_verdict(tmp_path: Path) -> None:
    assert combined_verdict(True, {}, [None]) is None
    path = judged(tmp_path, [attempt("a"), attempt("b")], judgement("b"), deciding={"j": True})
    table = read_attempts(path)
    assert sorted(table.passed.tolist()) == [NOT_JUDGED, 1]
    assert table.has_score("j.good").sum() == 1


@pytest.mark.parametrize("outcome", ["refused", "empty", "truncated", "error"])
def test_what_is_put_before_nobody_stays_as_it_is(outcome: Outcome, tmp_path: Path) -> None:
    passed = None if outcome == "error" else False
    path = judged(tmp_path, [attempt(outcome=outcome, passed=passed)], deciding={"j": True})
    assert read_attempts(path).passed.tolist() == [NOT_JUDGED if passed is None else 0]
    assert missing_of(path, ("j",)) == []


MADE = st.sampled_from([PASS, FAIL, NONE, UNMADE])
OUTCOMES: list[JudgementOutcome] = ["ok", "ok", "ok", "unparseable", "error"]


@settings(max_examples=40)
@given(
    st.lists(MADE, max_size=2),
    st.lists(st.tuples(st.sampled_from(OUTCOMES), MADE, st.booleans()) | st.none(), max_size=3),
)
def test_columns_and_records_agree(
    tmp_path_factory: pytest.TempPathFactory,
    rules: list[Score],
    said: list[tuple[JudgementOutcome, Score, bool] | None],
) -> None:
    scores = {f"rule{number}": score for number, score in enumerate(rules)}
    one = attempt(scores=scores, passed=verdict(scores))
    found = {
        f"j{number}": None if told is None else judgement(score=told[1], outcome=told[0],
                                                          judge=f"j{number}")
        for number, told in enumerate(said)
    }  # fmt: skip
    deciding = {f"j{number}": told is None or told[2] for number, told in enumerate(said)}
    expected = combined_verdict(
        one.passed, scores, [found[j] for j, has in deciding.items() if has]
    )
    folder = tmp_path_factory.getbasetemp()
    there = [told for told in found.values() if told is not None]
    path = judged(folder, [one], *there, deciding=deciding)
    assert read_attempts(path).passed.tolist() == [NOT_JUDGED if expected is None else expected]
    (shown,) = read_instance(path, "a")
    assert shown.passed is expected
    missing = {j for j, told in found.items() if told is None or told.outcome == "error"}
    assert {name for judges in missing_of(path, tuple(found)) for name in judges} == missing


def test_what_was_said_of_a_superseded_answer_is_not_the_new_ones(tmp_path: Path) -> None:
    old, new = attempt(text="old"), attempt(text="new")
    path = judged(tmp_path, [old, new], judgement(text="old", score=FAIL), deciding={"j": True})
    assert read_attempts(path).passed.tolist() == [NOT_JUDGED]
    assert missing_of(path, ("j",)) == [{"j": 0}]
    both = (judgement(text="old", score=FAIL), judgement(text="new"))
    path = judged(tmp_path, [old, new], *both, deciding={"j": True})
    assert read_attempts(path).passed.tolist() == [1]
    assert missing_of(path, ("j",)) == []


def test_what_is_to_be_judged_again_tells_how_often_it_was_answered(tmp_path: Path) -> None:
    unreadable, failed = judgement(outcome="unparseable"), judgement(outcome="error")
    said = {
        "once": (unreadable,),
        "twice": (unreadable, unreadable),
        "then failed": (unreadable, failed),
        "never": (failed,),
        "well": (judgement(),),
    }
    for name, lines in said.items():
        path = judged(tmp_path, [attempt()], *lines, deciding={"j": True})
        assert bool(missing_of(path, ("j",))) == (lines[-1] is failed), name
        owed = missing_of(path, ("j",), [*FAILED_OUTCOMES, "unparseable"])
        expected = {"j": sum(one is unreadable for one in lines)}
        assert owed == ([] if name == "well" else [expected])


@pytest.mark.parametrize(
    ("said", "owed"),
    [
        (["a", "b", "jury"], False),
        (["a", "b"], True),
        (["a", "b", "jury", "b"], True),  # asked again, and cut off before the panel's line
        (["a", "b", "jury", "failed b"], False),
        (["a", "b", "jury", "b", "jury"], False),
        (["jury"], False),
    ],
)
def test_a_panel_owes_what_its_judges_have_said_since(
    tmp_path: Path, said: list[str], owed: bool
) -> None:
    lines = [
        judgement(judge=who.split()[-1], outcome="error" if " " in who else "ok") for who in said
    ]
    path = judged(tmp_path, [attempt()], *lines, deciding={"a": False, "b": False, "jury": True})
    known = read_register(tmp_path)
    jury = RegisteredJudge({"as": "jury", "of": ["a", "b"]}, True)
    write_register(tmp_path, Register(judged=known.judged, judges={**known.judges, "jury": jury}))
    assert bool(missing_of(path, ("jury",))) == owed


def test_an_option_of_a_judge_makes_no_panel() -> None:
    assert RegisteredJudge({"as": "j", "of": ["a"], "model": {}}).members == ()
    assert RegisteredJudge({"as": "j", "of": ["a"]}).members == ("a",)


def test_the_last_line_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    failed = judgement(outcome="error")
    path = judged(tmp_path, [attempt()], failed, judgement(), deciding={"j": True})
    assert read_attempts(path).passed.tolist() == [1]
    path = judged(tmp_path, [attempt()], failed, deciding={"j": True})
    with (tmp_path / "judgements.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(judgement())[:-20])
    assert read_attempts(path).passed.tolist() == [NOT_JUDGED]
    with JsonLinesWriter(tmp_path / "judgements.jsonl") as writer:  # it cuts the torn line off
        writer.append(judgement())
    assert read_attempts(path).passed.tolist() == [1]


def test_half_a_character_has_the_same_hash_before_and_after_the_file(tmp_path: Path) -> None:
    text = "half \ud83d and a pair \ud83d\ude00"
    path = judged(tmp_path, [attempt(text=text)], judgement(text=text), deciding={"j": True})
    assert read_attempts(path).passed.tolist() == [1]


def test_rounds_and_samples_are_told_apart(tmp_path: Path) -> None:
    made = [attempt(sample=sample, round_=number) for sample, number in product((0, 1), (1, 2))]
    said = [judgement(sample=1, round_=1, score=FAIL), judgement(sample=0, round_=2)]
    path = judged(tmp_path, made, *said, deciding={"j": False})
    table = read_attempts(path)
    assert table.scores["j.good"].tolist() == [NOT_JUDGED, 1, 0, NOT_JUDGED]


def test_numbers_and_verdicts_of_several_judges_are_columns(tmp_path: Path) -> None:
    said = [judgement(name, Score(value), judge="k") for name, value in {"a": 0.25, "b": 1}.items()]
    made = [attempt("a"), attempt("b"), attempt("c")]
    path = judged(tmp_path, made, *said, judgement("c"), deciding={"j": False, "k": False})
    table = read_attempts(path)
    assert sorted(table.scores["k.good"][table.has_score("k.good")].tolist()) == [0.25, 1.0]
    assert table.has_score("j.good").sum() == 1


def test_the_calls_of_judges_cost_the_run_each_once(tmp_path: Path) -> None:
    paid = {"call_ids": ("ab",), "usage": Usage(10, 5), "cost_usd": 0.5}
    again = paid | {"cached": True}
    two = judgement(
        "c",
        call_ids=("ab", "cd"),
        usage=Usage(20, 10),
        cost_usd=1.25,
        calls=(JudgeCall(Usage(10, 5), 0.5, True), JudgeCall(Usage(10, 5), 0.75)),
    )
    made = [attempt(name, call_id="ef", cost_usd=1.0) for name in "abc"]
    said = [judgement("a", **paid), judgement("b", **again), two]
    path = judged(tmp_path, made, *said, deciding={"j": False})
    calls = read_calls(path)
    assert (calls.n_calls, calls.known_cost_usd, calls.paid_usd) == (3, 2.25, 2.25)
    assert calls.usage is None or calls.usage.input_tokens == 20
    assert read_payments(path) == {b"\xab": 0.5, b"\xcd": 0.75, b"\xef": 1.0}


def test_calls_are_told_apart_by_who_has_made_them(tmp_path: Path) -> None:
    made = [attempt("a", call_id="ef", cost_usd=1.0), attempt("b", call_id="00", cost_usd=None)]
    said = [
        judgement("a", call_ids=("ab",), cost_usd=0.5),
        judgement("b", call_ids=("ab",), cost_usd=0.5, cached=True, judge="k"),
        judgement("a", call_ids=("cd",), usage=Usage(10, 5), judge="k"),
    ]
    calls = read_calls(judged(tmp_path, made, *said, deciding={"j": False, "k": True}))
    assert (calls.n_calls, calls.known_cost_usd, calls.n_calls_without_cost) == (4, 1.5, 2)
    assert calls.model is not None
    assert (calls.model.n_calls, calls.model.known_cost_usd, calls.model.n_calls_without_cost) == (
        2,
        1.0,
        1,
    )
    j, k = calls.judges["j"], calls.judges["k"]
    assert (j.n_calls, j.known_cost_usd, j.paid_usd, j.n_calls_without_cost) == (1, 0.5, 0.5, 0)
    assert (k.n_calls, k.known_cost_usd, k.paid_usd, k.n_calls_without_cost) == (2, 0.5, 0.0, 1)
    (tmp_path / "judges.json").unlink()
    alone = read_calls(tmp_path / "attempts.jsonl")
    assert (alone.model, alone.judges, alone.n_calls) == (None, {}, 2)


def test_an_instance_is_shown_with_its_judgements(tmp_path: Path) -> None:
    said = judgement(replies=("Yes.",))
    path = judged(tmp_path, [attempt(scores={"rule": PASS})], said, deciding={"j": True})
    (one,) = read_instance(path, "a")
    assert isinstance(one, JudgedAttempt)
    assert one.judgements == (said,)
    assert list(one.scores) == ["rule", "j.good"]
    assert read_instance(path, "b") == []


def test_a_run_without_judges_is_read_as_before(tmp_path: Path) -> None:
    path = write(tmp_path / "attempts.jsonl", attempt())
    assert type(read_instance(path, "a")[0]) is Attempt
    assert read_columns(path)[0].passed.tolist() == [1]
    assert read_register(tmp_path) == Register()


@pytest.mark.parametrize("line", [b"{}", b"not json", b'{"v":1}', b"[]", b"\xff"])
def test_a_line_that_is_no_judgement_is_named(line: bytes, tmp_path: Path) -> None:
    path = judged(tmp_path, [attempt()], judgement(), deciding={"j": True})
    with (tmp_path / "judgements.jsonl").open("ab") as file:
        file.write(line + b"\n")
    for reading in (read_attempts, read_calls, lambda path: read_instance(path, "a")):
        with pytest.raises(DataInvalid, match="line 2"):
            reading(path)


def test_a_damaged_register_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "attempts.jsonl", attempt())
    (tmp_path / "judges.json").write_text("{")
    with pytest.raises(StoreFailed, match=r"judges\.json"):
        read_attempts(path)
