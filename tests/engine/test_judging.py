"""Judges at work on the toy task, each with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.calls.signals import Notices, Stop
from harness.config.sections import PanelSection
from harness.engine.assessment import judged_outcomes
from harness.engine.judges import JudgeModel, Judges
from harness.engine.judging import Judging
from harness.engine.plan import UnfinishedSample
from harness.engine.progress import Tally, Verdicts
from harness.engine.samples import SampleRunner
from harness.engine.session import Session, process_all
from harness.errors import ConfigError, FatalCallError, RequestRejected, Unparseable
from harness.plugin import Judge
from harness.records import (
    Attempt,
    Decoding,
    DecodingConstraint,
    Instance,
    Message,
    Question,
    Reply,
    Request,
    Score,
)
from harness.scoring.reasoning import Reasoning
from harness.store.calls import read_calls
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex, read_attempts
from harness.store.json_lines import JsonLinesWriter, read_lines
from harness.store.judgements import Judgement, Register, RegisteredJudge, text_hash, write_register
from tests.conftest import Scripted, Sums, sum_asked
from tests.engine.toys import QUARTER, bound, judge_model, plan

ASKED = Decoding(temperature=0.0, max_tokens=9)


class YesOrNo(Judge):
    """Asks a given number of questions; an answer passes if every reply is yes."""

    def __init__(self, questions: int = 1, decoding: Decoding = ASKED) -> None:
        self.n = questions
        self.decoding = decoding
        self.verdicts = True

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        return [
            Question((Message("user", f"{instance.data} {number}: {text}"),), self.decoding)
            for number in range(self.n)
        ]

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        said = [reply.text for reply in replies]
        if not set(said) <= {"yes", "no"}:
            raise Unparseable(f"{said} is neither yes nor no")
        good = all(text == "yes" for text in said)
        return {"good": Score(good, good, "" if good else "The judge says no.")}


class Setting:
    """A run of sums in a folder, with judges by name."""

    def __init__(self, folder: Path, task: Sums | None = None, **run: Any) -> None:
        self.path = folder / "attempts.jsonl"
        self.folder = folder
        self.task = task or Sums(4)
        self.options = run

    async def run(
        self,
        backend: Scripted | None = None,
        *,
        decides: bool = True,
        questions: int = 1,
        stop: Stop | None = None,
        panels: Sequence[PanelSection] = (),
        rubric: YesOrNo | None = None,
        **judges: Scripted,
    ) -> Tally:
        stop = stop or Stop()
        every = {
            name: bound(model, stop, name=f"model of {name}", price=QUARTER)
            for name, model in judges.items()
        }
        judge = rubric or YesOrNo(questions)
        judge.verdicts = decides
        models = [judge_model(name, judge, one, self.task) for name, one in every.items()]
        outcomes = judged_outcomes(self.task)
        register = {name: RegisteredJudge({}, decides) for name in judges}
        register |= {panel.as_: RegisteredJudge({}, True) for panel in panels}
        write_register(self.folder, Register(judged=outcomes, judges=register))
        tally = Tally()
        run_plan = plan(self.path, self.task, **self.options)
        with (
            JsonLinesWriter(self.path) as writer,
            JsonLinesWriter(self.folder / "judgements.jsonl") as said,
        ):
            bind = {id(one.model): one for one in every.values()}
            found = Judges(self.task, models, panels)
            judging = Judging(
                found, lambda model: bind[id(model)], self.path, said, tally, Reasoning()
            )
            await judging.catch_up(run_plan.instances, 4, Session("", stop, Notices()))
            if judging.decides:
                run_plan = replace(run_plan, index=AttemptIndex(self.path))

            def record(attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
                writer.append(attempt)
                tally.record(attempt, passed, before)

            runner = SampleRunner(
                run_plan, bound(backend or Scripted(), stop), record, stop, judging
            )

            async def work(sample: UnfinishedSample) -> None:
                tally.finish_sample(await runner.finish(sample))

            await process_all(run_plan.unfinished(), work, workers=4, stop=stop)
        return tally

    def judgements(self) -> list[Judgement]:
        path = self.folder / "judgements.jsonl"
        return [msgspec.json.decode(line, type=Judgement) for _, line in read_lines(path)]

    def attempts(self) -> dict[tuple[str, int, int], Attempt]:
        found = [msgspec.json.decode(line, type=Attempt) for _, line in read_lines(self.path)]
        return {(a.instance, a.sample, a.round): a for a in found}

    def passed(self) -> list[int]:
        return list(read_attempts(self.path).passed.tolist())


def yes() -> Scripted:
    return Scripted(lambda _: "yes")


def no() -> Scripted:
    return Scripted(lambda _: "no")


async def test_every_answer_is_judged_once_by_every_judge(tmp_path: Path) -> None:
    setting, first, second = Setting(tmp_path, samples=2), yes(), no()
    tally = await setting.run(one=first, two=second)
    assert len(first.requests) == len(second.requests) == 8
    found = setting.judgements()
    assert len({(j.judge, j.instance, j.sample, j.round) for j in found}) == len(found) == 16
    assert {j.judge: j.scores[f"{j.judge}.good"].passed for j in found} == {
        "one": True,
        "two": False,
    }
    assert all(j.attempt == text_hash(str(2 * int(j.instance[-1]))) for j in found)
    assert setting.passed() == [0] * 8
    assert set(read_attempts(setting.path).scores) == {"exact", "one.good", "two.good"}
    assert (tally.calls, tally.finished, tally.passed) == (24, 8, 0)


async def test_a_judges_requests_name_its_model_and_the_attempt(tmp_path: Path) -> None:
    setting, judge = Setting(tmp_path, samples=2), yes()
    await setting.run(one=judge)
    assert {r.model for r in judge.requests} == {"model of one"}
    assert {(r.origin.instance, r.origin.sample) for r in judge.requests} == {
        (f"sum/{n}", k) for n in range(4) for k in range(2)
    }
    assert {r.decoding for r in map(_hashable, judge.requests)} == {(None, None)}
    able = yes()
    able.features = frozenset({"temperature", "max_tokens"})
    other = Setting(tmp_path / "other")
    other.folder.mkdir()
    await other.run(one=able)
    assert {r.decoding for r in map(_hashable, able.requests)} == {(0.0, 9)}


@pytest.mark.parametrize(
    ("decoding", "named"),
    [
        (Decoding(constraint=DecodingConstraint(choices=("yes", "no"))), "choices"),
        (Decoding(temperature=0.0, stop=("\n",)), "stop"),
    ],
)
def test_unsupported_parameters_are_refused_and_not_dropped(decoding: Decoding, named: str) -> None:
    judge = YesOrNo(decoding=decoding)

    def taking(*features: str) -> JudgeModel:
        backend = yes()
        backend.features = frozenset(features)
        return judge_model("j", judge, bound(backend, Stop()), Sums())

    instance = Instance("sum/0", 0)
    attempt = Attempt(1, "sum/0", 0, 1, {}, "c", {}, "ok", 0.0, 1.0, text="0")
    with pytest.raises(ConfigError, match=f"asks for {named},"):
        taking().requests(instance, attempt)
    assert taking(named).requests(instance, attempt)


class _Hashable(msgspec.Struct, frozen=True):
    decoding: tuple[float | None, int | None]


def _hashable(request: Request) -> _Hashable:
    return _Hashable((request.decoding.temperature, request.decoding.max_tokens))


async def test_the_questions_of_a_judgement_are_asked_at_the_same_time(tmp_path: Path) -> None:
    judge = Scripted(lambda _: "yes", delay=0.02)
    setting = Setting(tmp_path, Sums(1))
    await setting.run(questions=3, one=judge)
    assert judge.most_in_flight == 3
    (said,) = setting.judgements()
    assert (said.replies, len(said.call_ids), len(said.calls)) == (("yes",) * 3, 3, 3)
    assert said.usage is not None
    assert (said.usage.input_tokens, said.cost_usd) == (9, 0.75)
    assert read_calls(setting.path).n_calls == 4


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("perhaps", "unparseable"),
        (Reply("", "stop"), "empty"),
        (Reply("", "refusal"), "refused"),
        (Reply("yes", "content_filter"), "refused"),
        (RequestRejected("too long"), "error"),
    ],
)
async def test_a_reply_without_a_verdict_is_an_outcome_and_not_zero(
    tmp_path: Path, reply: str | Reply | Exception, outcome: str
) -> None:
    setting = Setting(tmp_path, Sums(1))
    await setting.run(one=Scripted(lambda _: reply))
    (said,) = setting.judgements()
    assert (said.outcome, said.scores) == (outcome, {})
    assert bool(said.error) == (outcome in ("unparseable", "error"))
    assert setting.passed() == [NOT_JUDGED]


@pytest.mark.parametrize("said", [Reply("", "stop"), Reply("no", "refusal")])
async def test_a_reply_that_says_nothing_is_parsed_as_empty(tmp_path: Path, said: Reply) -> None:
    setting = Setting(tmp_path, Sums(1))
    judge = Scripted(lambda request: said if " 1: " in request.messages[-1].content else "yes")
    await setting.run(questions=3, one=judge)
    (found,) = setting.judgements()
    assert (found.outcome, found.replies) == ("unparseable", ("yes", said.text, "yes"))
    assert found.error == "['yes', '', 'yes'] is neither yes nor no"


async def test_an_answer_without_any_verdict_is_not_reported_as_correct(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(1), rounds={"max": 3})
    model, mute = Scripted(lambda _: "0"), Scripted(lambda _: "perhaps")
    await setting.run(model, one=mute)
    await setting.run(model, one=mute)
    assert len(model.requests) == 1
    (attempt,) = setting.attempts().values()
    assert (attempt.passed, attempt.feedback) == (True, None)
    assert setting.passed() == [NOT_JUDGED]


async def test_only_failed_judgements_are_repeated(tmp_path: Path) -> None:
    setting, failing = Setting(tmp_path), {"sum/1": RequestRejected("no"), "sum/2": "perhaps"}
    judge = Scripted(lambda request: failing.get(request.origin.instance, "yes"))
    await setting.run(one=judge)
    assert sorted(setting.passed()) == [NOT_JUDGED, NOT_JUDGED, 1, 1]
    again, model = yes(), Scripted()
    await setting.run(model, one=again)
    assert [r.origin.instance for r in again.requests] == ["sum/1"]
    assert model.requests == []
    assert sorted(setting.passed()) == [NOT_JUDGED, 1, 1, 1]
    assert (await setting.run(model, one=again)).calls == 0
    assert len(again.requests) == 1


async def test_only_answers_are_judged(tmp_path: Path) -> None:
    replies: dict[int, str | Reply | Exception] = {
        0: Reply("", "refusal"),
        1: Reply("", "stop"),
        2: Reply("4", "length"),
        3: RequestRejected("no"),
        4: "eight",
        5: "10",
    }
    judge = yes()
    setting = Setting(tmp_path, Sums(6))
    await setting.run(Scripted(lambda request: replies[sum_asked(request)]), one=judge)
    assert {r.origin.instance for r in judge.requests} == {"sum/4", "sum/5"}
    passed = {
        (a.instance): p
        for a, p in zip(
            sorted(setting.attempts().values(), key=_digest), setting.passed(), strict=True
        )
    }
    assert passed == {
        **{"sum/0": 0, "sum/1": 0, "sum/2": 0, "sum/3": NOT_JUDGED},
        **{"sum/4": 0, "sum/5": 1},
    }


def _digest(attempt: Attempt) -> int:
    from harness.store.columns import name_digest

    return name_digest(attempt.instance)


async def test_a_graded_truncated_answer_is_judged(tmp_path: Path) -> None:
    judge = yes()
    setting = Setting(tmp_path, Sums(1, on_truncated="grade"))
    await setting.run(Scripted(lambda _: Reply("0", "length")), one=judge)
    assert len(judge.requests) == 1


async def test_a_wrong_key_of_a_judge_stops_the_run_and_keeps_the_answers(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    with pytest.raises(FatalCallError):
        await setting.run(one=Scripted(lambda _: FatalCallError("401")))
    kept = setting.attempts()
    assert kept
    assert setting.judgements() == []
    model = Scripted()
    await setting.run(model, one=yes())
    assert {r.origin.instance for r in model.requests} == {f"sum/{n}" for n in range(4)} - {
        instance for instance, _, _ in kept
    }
    assert setting.passed() == [1] * 4


async def test_a_run_that_stops_while_judges_are_asked_owes_their_judgements(
    tmp_path: Path,
) -> None:
    setting, stop = Setting(tmp_path, Sums(20)), Stop()
    judge = Scripted(lambda _: "yes", delay=0.02)
    running = asyncio.create_task(setting.run(stop=stop, one=judge))
    async with asyncio.timeout(10):
        while not judge.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    stop.request()
    tally = await running
    judged = {j.instance for j in setting.judgements()}
    assert judged == {r.origin.instance for r in judge.requests}, "what is in flight is finished"
    assert tally.finished == len(judged) <= len(setting.attempts()) < 20
    again = yes()
    await setting.run(one=again)
    assert {r.origin.instance for r in again.requests} == {f"sum/{n}" for n in range(20)} - judged
    assert setting.passed() == [1] * 20


async def test_a_superseded_answer_is_judged_again(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(1))
    await setting.run(Scripted(lambda _: "perhaps 0"), one=yes())
    assert setting.attempts()["sum/0", 0, 1].outcome == "unparseable"
    with JsonLinesWriter(setting.path) as writer:  # as --retry unparseable does
        old = setting.attempts()["sum/0", 0, 1]
        writer.append(
            msgspec.structs.replace(
                old, text="0", outcome="ok", passed=True, scores={"exact": Score(True, True)}
            )
        )
    assert setting.passed() == [NOT_JUDGED]
    judge = no()
    await setting.run(one=judge)
    assert [r.messages[0].content for r in judge.requests] == ["0 0: 0"]
    assert setting.passed() == [0]


async def test_a_judge_that_says_no_sends_the_answer_back(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(3), rounds={"max": 3})
    judge = Scripted(lambda request: "yes" if request.origin.round == 2 else "no")
    tally = await setting.run(one=judge)
    kept = setting.attempts()
    assert set(kept) == {(f"sum/{n}", 0, number) for n in range(3) for number in (1, 2)}
    assert all(a.passed for a in kept.values()), "by the rules alone"
    assert {a.feedback for a in kept.values() if a.round == 1} == {"The judge says no."}
    assert all(a.feedback is None for a in kept.values() if a.round == 2)
    assert (tally.passed, tally.judged) == (3, 3)
    model = Scripted()
    await setting.run(model, one=judge)
    assert model.requests == [], "nothing is owed"


async def test_feedback_combines_rules_and_judges(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(1), rounds={"max": 2})
    await setting.run(Scripted(lambda _: "7"), one=no())
    first = setting.attempts()["sum/0", 0, 1]
    assert first.feedback == "7 is wrong.\nThe judge says no."


async def test_an_advisory_judge_changes_no_round(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(2), rounds={"max": 2})
    await setting.run(decides=False, one=no())
    assert set(setting.attempts()) == {("sum/0", 0, 1), ("sum/1", 0, 1)}
    assert setting.passed() == [1, 1]
    assert len(setting.judgements()) == 2


async def test_a_round_held_up_by_a_failed_judge_resumes_later(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(1), rounds={"max": 2})
    model = Scripted()
    await setting.run(model, one=Scripted(lambda _: RequestRejected("no")))
    assert set(setting.attempts()) == {("sum/0", 0, 1)}
    await setting.run(model, one=Scripted(lambda _: RequestRejected("still not")))
    assert set(setting.attempts()) == {("sum/0", 0, 1)}
    await setting.run(model, one=no())
    assert set(setting.attempts()) == {("sum/0", 0, 1), ("sum/0", 0, 2)}
    sent = model.requests[-1].messages
    assert sent[-1].content == "The judge says no."


async def test_a_run_with_more_rounds_sends_what_a_judge_found_as_feedback(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(2))
    judge = Scripted(lambda request: "yes" if request.origin.instance == "sum/1" else "no")
    await setting.run(one=judge)
    setting.options = {"rounds": {"max": 2}}
    model = Scripted()
    await setting.run(model, one=judge)
    assert [r.origin.instance for r in model.requests] == ["sum/0"]
    assert model.requests[0].messages[-1].content == "The judge says no."


class Reading(YesOrNo):
    """Takes the answer's text when it parses its replies."""

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str = ""
    ) -> Mapping[str, Score]:
        return {"good": Score(float(text), None)}


@pytest.mark.parametrize("judge", [Reading(), YesOrNo()])
async def test_parse_receives_the_text_if_it_takes_it(judge: YesOrNo, tmp_path: Path) -> None:
    """Third-party judges that do not take the text are called without it."""
    setting = Setting(tmp_path)
    model = bound(yes(), Stop())
    judges = Judges(setting.task, [judge_model("one", judge, model, setting.task)])
    with JsonLinesWriter(tmp_path / "judgements.jsonl") as said:
        judging = Judging(judges, lambda _: model, setting.path, said, Tally(), Reasoning())
        await setting.run()
        attempt = list(setting.attempts().values())[-1]
        (found,) = (await judging.judge(Instance(attempt.instance, 1), attempt)).judgements
    expected = float(attempt.text or "") if isinstance(judge, Reading) else True
    assert found.scores["one.good"].value == expected


@pytest.mark.parametrize(("said", "warned"), [(["?"] * 25, True), (["yes", *["?"] * 24], False)])
async def test_a_judge_without_any_verdict_is_reported_during_the_run(
    said: list[str], warned: bool, tmp_path: Path
) -> None:
    replies, notices = iter(said), Notices()
    model = bound(Scripted(lambda _: next(replies)), Stop(), name="m", price=QUARTER)
    judges = Judges(Sums(), [judge_model("one", YesOrNo(), model, Sums())])
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(tmp_path / "judgements.jsonl") as writer:
        judging = Judging(
            judges, lambda _: model, path, writer, Tally(), Reasoning(), notices=notices
        )
        for sample in range(len(said)):
            attempt = Attempt(
                v=1, instance="sum/0", sample=sample, round=1, groups={}, cluster="c", request={},
                outcome="ok", started_at=0.0, ended_at=0.0, text="0",
            )  # fmt: skip
            judging.record((await judging.judge(Instance("sum/0", 0), attempt)).new)
            assert bool(notices.messages) == (warned and sample >= 19)
    if warned:
        (notice,) = notices.messages
        assert notice.startswith("judge one: none of its first 20 judgements has a verdict. ['?']")


class Talk(YesOrNo):
    """Asks on, at most three times, as long as the last reply is yes; each question has its own."""

    def next_questions(
        self, instance: Instance[Any], text: str, replies: Sequence[Reply]
    ) -> Sequence[Question]:
        if len(replies) == 3 or replies[-1].text != "yes":
            return []
        said = [Message("assistant", reply.text) for reply in replies]
        return [Question((*said, Message("user", f"{text}: and then?")), self.decoding)]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (["yes", "yes", "yes"], "ok"),
        (["yes", "no"], "ok"),
        (["yes", "what?"], "unparseable"),
        (["yes", RequestRejected("No.")], "error"),
    ],
)
async def test_a_conversation_goes_on_after_each_reply(
    said: list[Any], outcome: str, tmp_path: Path
) -> None:
    model = Scripted(lambda request: said[len(request.messages) - 1])
    talking = bound(model, Stop(), name="m", price=QUARTER)
    judges = Judges(Sums(), [judge_model("talk", Talk(), talking, Sums())])
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        judging = Judging(judges, lambda _: talking, path, writer, Tally(), Reasoning())
        attempt = Attempt(
            v=1, instance="sum/0", sample=0, round=1, groups={}, cluster="c", request={},
            outcome="ok", started_at=0.0, ended_at=0.0, text="0",
        )  # fmt: skip
        (made,) = (await judging.judge(Instance("sum/0", 0), attempt)).judgements
    assert made.outcome == outcome
    assert list(made.replies) == [one for one in said if isinstance(one, str)]
    assert [len(request.messages) for request in model.requests] == list(range(1, len(said) + 1))


class Excessive(YesOrNo):
    """Gives every answer a score that is too large."""

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        return {"size": Score(1e200)}


async def test_a_judges_score_that_cannot_be_recorded_ends_the_run(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(1))
    with pytest.raises(ConfigError, match="'size' of instance 'sum/0' has the value 1e") as error:
        await setting.run(rubric=Excessive(), first=yes())
    assert "'first'" in error.value.remedy
    assert setting.judgements() == []
    assert len(setting.attempts()) == 1, "the paid answer is recorded"
