"""The judges of a run score its answers.

A failed call, or a reply without a verdict, is recorded as the judgement's outcome, never as a
score of 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from msgspec.structs import replace

from harness.calls.calls import ReplyUnsaved
from harness.calls.signals import Notices
from harness.engine.assessment import (
    UNANSWERED,
    AnswerVerdict,
    Assessment,
    judged_outcomes,
    recordable,
    reply_outcome,
)
from harness.engine.call_stack import bind
from harness.engine.job import Job
from harness.engine.judges import JudgeModel, JudgePanel, Judges, build_panel, judge_warnings
from harness.engine.models import Model
from harness.engine.plan import RunPlan
from harness.engine.progress import Tally
from harness.engine.reasoning import RecordedAnswers
from harness.engine.restoring import is_cached
from harness.engine.session import BoundModel, Session, work_off
from harness.engine.turns import answered
from harness.errors import CallError, ConfigError, FatalCallError, Unparseable
from harness.ports import Task
from harness.records import SCHEMA_VERSION, Attempt, Call, Instance, Request, Score, Usage
from harness.scoring.reasoning import Reasoning
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgement_index import JudgementIndex
from harness.store.judgements import (
    FAILED,
    REDRAWN,
    JudgeCall,
    Judgement,
    JudgementOutcome,
    text_hash,
    verdict_over,
)
from harness.store.run_folder import JUDGEMENTS, RunFolder

FIRST_JUDGEMENTS = 20  # if none has a verdict, a judge probably needs to be corrected


class AttemptToJudge(NamedTuple):
    """An attempt that some judges have yet to judge."""

    instance: Instance[Any]  # as of the turn that the attempt answers
    answer: Attempt  # with its reasoning separated
    recorded: Attempt  # its text identifies the attempt's judgements
    judges: Mapping[str, int]  # each with the number of its answers so far


class OwedJudgements:
    """Attempts with a judgement that is missing, has failed, or has an outcome in ``retried``.

    ``reasoning`` has the marks of the model that answered.
    """

    def __init__(
        self,
        path: Path,
        judges: Sequence[str],
        reasoning: Reasoning,
        retried: Collection[JudgementOutcome] = (),
    ) -> None:
        self._index = AttemptIndex(path, partial=True)  # a session restores the judges
        self._answers = RecordedAnswers(self._index, reasoning)
        self._owed = self._index.owed_judgements(judges, {*FAILED, *retried})

    def __len__(self) -> int:
        return len(self._owed)

    def work(self, task: Task[Any], instances: Iterable[Instance[Any]]) -> Iterator[AttemptToJudge]:
        """Yield the unjudged attempts of the task's instances."""
        for instance in instances if self._owed else ():
            rows = [row for row in self._index.rows_of(instance.id) if row in self._owed]
            attempts = list(self._index.read(Attempt, rows, judged=False))
            answers = self._answers.of(attempts)
            for row, recorded, answer in zip(rows, attempts, answers, strict=True):
                turn = answered(task, instance, answer, self._answers)
                yield AttemptToJudge(turn, answer, recorded, self._owed[row])

    def answered(self, judge: JudgeModel, instances: Iterable[Instance[Any]]) -> Request | None:
        """Return the first request of a judgement that an earlier session has made, or None."""
        if (judgements := self._index.judgements) is None:
            return None
        judged = judgements.judged(self._index.attempts)
        for instance in instances:
            rows = [
                row
                for row in self._index.rows_of(instance.id)
                if judged[row] and judge.name not in self._owed.get(row, ())
            ]
            attempts = self._index.read(Attempt, rows, judged=False)
            for answer in self._answers.of(list(attempts)):
                turn = answered(judge.task, instance, answer, self._answers)
                for request in judge.requests(turn, answer):
                    return request
        return None


class Judging:
    """The part of a session that judges attempts.

    Earlier sessions' judgements are repeated if they failed or their outcome is in ``retried``. If
    ``lost_attempts``, attempts that were judged before are restored: they keep their judgements.
    """

    def __init__(
        self,
        judges: Judges,
        bind: Callable[[Model], BoundModel],
        attempts: Path,
        writer: JsonLinesWriter,
        tally: Tally,
        reasoning: Reasoning,
        retried: Collection[JudgementOutcome] = (),
        notices: Notices | None = None,
        *,
        lost_attempts: bool = False,
    ) -> None:
        self._begun = time.time()
        self._lost_attempts = lost_attempts
        self._notices = notices or Notices()
        self._judges, self._names, self._deciding = judges.models, judges.names, judges.deciding
        self._task, self._bind = judges.task, bind
        self._outcomes = judged_outcomes(judges.task)
        self._panels = {section.as_: build_panel(section) for section in judges.panels}
        self._attempts, self._writer, self._tally = attempts, writer, tally
        self._reasoning = reasoning
        self._unsaved: ReplyUnsaved | None = None
        self.late = OwedJudgements(
            attempts, self._names, reasoning, retried
        )  # left by earlier sessions

    @classmethod
    @contextlib.contextmanager
    def of_run(
        cls,
        judges: Judges,
        session: Session,
        folder: RunFolder,
        tally: Tally,
        reasoning: Reasoning,
        *,
        lost_attempts: bool = False,
    ) -> Iterator[Self]:
        """Open a run's file of judgements within a ``with`` block."""
        with JsonLinesWriter(folder.path / JUDGEMENTS, folder.seal()) as writer:
            notices = session.notices
            yield cls(
                *(judges, partial(bind, session), folder.attempts, writer, tally, reasoning),
                notices=notices,
                lost_attempts=lost_attempts,
            )

    @property
    def decides(self) -> bool:
        """Whether any judge or panel helps to decide which answers pass."""
        return bool(self._deciding)

    async def judge(self, instance: Instance[Any], attempt: Attempt) -> AnswerVerdict:
        """Run all judges on an attempt concurrently. Return its verdict without writing it.

        A restored attempt keeps its recorded judgements: a first reply must not replace later ones.
        Attempts without an answer keep the rules' verdict. An error other than a failed call is
        raised only after all calls have ended and their replies are cached.
        """
        if attempt.outcome not in self._outcomes:
            return AnswerVerdict(attempt.passed)
        recorded: dict[str, Judgement] = {}
        # A later round with the same text may be of another conversation, unless it is restored.
        if self._lost_attempts and (attempt.round == 1 or attempt.ended_at < self._begun):
            recorded = self._earlier(attempt)
        missing = {
            judge.name: self._redraws(judge.name, attempt) if judge.name in recorded else 0
            for judge in self._judges
            if judge.name not in recorded or recorded[judge.name].outcome in FAILED
        }
        new = await self._ask_all(instance, attempt, missing)
        latest = recorded | {judgement.judge: judgement for judgement in new}
        panels = {
            name: panel
            for name, panel in self._panels.items()
            if name not in recorded or not missing.keys().isdisjoint(panel.of)
        }
        new += self._by_panels(attempt, panels, latest)
        latest |= {judgement.judge: judgement for judgement in new}
        judgements = [latest[name] for name in self._names if name in latest]
        return self._verdict(attempt, judgements)._replace(new=new)

    def recorded(self, attempt: Attempt) -> AnswerVerdict:
        """Return an attempt's verdict from the judgements of earlier sessions."""
        if attempt.outcome not in self._outcomes:
            return AnswerVerdict(attempt.passed)
        latest = self._earlier(attempt)
        said = [latest[name] for name in self._names if name in latest]
        return self._verdict(attempt, said)

    @cached_property
    def _recorded(self) -> JudgementIndex:
        return JudgementIndex(self._attempts.parent)  # this session's judgements are not looked up

    def _earlier(self, attempt: Attempt) -> dict[str, Judgement]:
        """Return the last judgement of an attempt by each judge that has judged it before."""
        return self._recorded.of(attempt.instance, attempt.sample, attempt.round, attempt.text)

    def _redraws(self, judge: str, attempt: Attempt) -> int:
        name = attempt.instance, attempt.sample, attempt.round, attempt.text
        return self._recorded.answers(judge, *name)

    def _verdict(self, attempt: Attempt, judgements: Sequence[Judgement]) -> AnswerVerdict:
        said = {one.judge: one for one in judgements}
        heard = {one.judge for one in judgements if one.outcome != "error"}
        passed = attempt.passed
        if judgements:
            deciding = [said.get(name) for name in self._deciding]
            passed = verdict_over(passed, attempt.scores, deciding)
        return AnswerVerdict(passed, judgements, not heard.issuperset(self._deciding))

    def feedback(self, by_rules: str, found: Assessment, verdict: AnswerVerdict) -> str | None:
        """Return the user's next message, or None if a verdict is missing.

        It contains the task's feedback (``by_rules``), unless the answer fails only because of the
        judges, and the deciding judges' reasons why scores fail.
        """
        if not self._deciding:
            return by_rules
        if verdict.pending:
            return None
        wrong = [
            score.reason or f"The answer does not pass for {name.partition('.')[2]!r}."
            for judgement in verdict.judgements
            if judgement.judge in self._deciding
            for name, score in judgement.scores.items()
            if score.passed is False
        ]
        if wrong:
            return "\n".join([by_rules, *wrong] if found.passed is False else wrong)
        return None if found.passed is not False and verdict.passed is None else by_rules

    def record(self, judgements: Iterable[Judgement]) -> None:
        """Write new judgements of an attempt. Call this only after writing the attempt's own line.

        Raises:
            ReplyUnsaved: If a judge's reply could not be cached.
        """
        for judgement in judgements:
            self._writer.append(judgement)
            if judgement.outcome == "error":
                self._tally.failed_judgements += 1
                self._tally.last_error = f"judge {judgement.judge}: {judgement.error}"
            if judgement.call_ids or judgement.judge in self._panels:
                self._tally.judgements[judgement.judge] += 1
                undecided = [score for score in judgement.scores.values() if score.value is None]
                if undecided or judgement.outcome not in ("ok", *FAILED):
                    kind = judgement.judge, "undecided" if undecided else judgement.outcome
                    self._tally.verdictless[kind] += 1
                    reasons = (score.reason for score in undecided if score.reason)
                    self._tally.reasons[kind] = judgement.error or next(reasons, "")
                    self._warn_of_silent(judgement.judge, self._tally.reasons[kind])
            for _, call in judgement.each_call():
                self._tally.count_call(call.usage, call.cost_usd, cached=call.cached)
        if self._unsaved is not None:
            raise self._unsaved

    def _warn_of_silent(self, judge: str, reason: str) -> None:
        silent = sum(n for (name, _), n in self._tally.verdictless.items() if name == judge)
        if silent == self._tally.judgements[judge] == FIRST_JUDGEMENTS:
            self._notices.status(f"judge {judge}")(
                f"none of its first {silent} judgements has a verdict. {reason} "
                "Ctrl-C stops the run before the others are paid for.".lstrip()
            )

    async def caught_up(
        self, job: Job, plan: RunPlan, session: Session, workers: int, *, restore: bool = False
    ) -> RunPlan:
        """Judge attempts left unjudged. Return the plan, renewed if verdicts may have changed.

        If ``restore``, judgements were lost, and those that were drawn again are restored.
        """
        for name, text in judge_warnings(job.judges, job.instances):
            session.notices.status(f"judge {name}")(text)
        await self.catch_up(job.data, workers, session)
        if restore:
            await self.restore(job.data, workers, session)
        if not self.decides or plan.index is None:
            return plan
        index = AttemptIndex(self._attempts)
        self._tally.record_earlier(index)
        return dataclasses.replace(plan, index=index)

    async def catch_up(
        self, instances: Iterable[Instance[Any]], workers: int, session: Session
    ) -> int:
        """Judge attempts that earlier sessions left unjudged.

        Returns:
            The number of attempts that no panel could judge because a member's judgement is
            missing.
        """
        for model in self._judges:
            answered = partial(self.late.answered, model, instances)
            session.earlier.setdefault(model.model.where, answered)
        return await self._judge_late(self.late, instances, workers, session)

    async def restore(
        self, instances: Iterable[Instance[Any]], workers: int, session: Session
    ) -> None:
        """Restore lost judgements of `REDRAWN` ones, whose replies are in the cache, in order.

        Call this when what was lost has been repeated, which takes the first reply to each call.
        """
        seen = set[tuple[str, int, int, str, int]]()

        async def restorable(work: AttemptToJudge) -> Mapping[str, int]:
            judges = {}
            for judge in self._judges:
                if (redraw := work.judges.get(judge.name, 0)) == 0:
                    continue
                recorded = work.recorded
                draw = recorded.instance, recorded.sample, recorded.round, judge.name, redraw
                requests = judge.requests(work.instance, work.answer, redraw=redraw)
                if draw in seen or not (
                    requests and await is_cached(session, judge.model, requests)
                ):
                    continue
                seen.add(draw)
                judges[judge.name] = redraw
            return judges

        before = -1
        while before < len(seen) and not session.stop.requested:
            before = len(seen)
            late = OwedJudgements(self._attempts, self._names, self._reasoning, REDRAWN)
            await self._judge_late(late, instances, workers, session, restorable)

    async def _judge_late(
        self,
        late: OwedJudgements,
        instances: Iterable[Instance[Any]],
        workers: int,
        session: Session,
        restorable: Callable[[AttemptToJudge], Awaitable[Mapping[str, int]]] | None = None,
    ) -> int:
        if not len(late):
            return 0
        # A panel may still owe a judgement although its members gave theirs in an earlier session.
        panels = self._panels
        earlier = JudgementIndex(self._attempts.parent) if panels else None
        waiting = 0

        async def judge(work: AttemptToJudge) -> None:
            nonlocal waiting
            if restorable is not None:
                work = work._replace(judges=await restorable(work))
                if not work.judges:
                    return
            recorded = work.recorded
            judged_text = text_hash(recorded.text or "")
            judgements = [
                replace(judgement, attempt=judged_text)
                for judgement in await self._ask_all(work.instance, work.answer, work.judges)
            ]
            if earlier is not None:
                latest = earlier.of(
                    recorded.instance, recorded.sample, recorded.round, recorded.text
                )
                latest |= {judgement.judge: judgement for judgement in judgements}
                owed = {n: p for n, p in panels.items() if not {n, *p.of}.isdisjoint(work.judges)}
                judgements += self._by_panels(recorded, owed, latest)
            self.record(judgements)
            if restorable is not None:
                return  # it was not counted as missing
            if judgements:
                self._tally.finish_sample()
            else:
                waiting += 1

        workers = min(workers, len(late))
        await work_off(late.work(self._task, instances), judge, workers=workers, stop=session.stop)
        return waiting

    async def _ask_all(
        self, instance: Instance[Any], attempt: Attempt, names: Mapping[str, int]
    ) -> list[Judgement]:
        asked = [judge for judge in self._judges if judge.name in names]
        work = (self._ask(judge, instance, attempt, names[judge.name]) for judge in asked)
        made: list[Judgement] = []
        for ended in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended
            made.append(ended)
        return made

    async def _ask(
        self, judge: JudgeModel, instance: Instance[Any], attempt: Attempt, redraw: int
    ) -> Judgement:
        ask = self._bind(judge.model).call

        async def call(request: Request) -> Call | Exception:
            try:
                return await ask(request)
            except ReplyUnsaved as error:  # raised by `record`, after writing
                self._unsaved = self._unsaved or error
                return error.call
            except Exception as error:  # the judgement's other calls are finished anyway
                return error

        started = time.time()
        calls: list[Call] = []
        errors: list[Exception] = []
        requests = judge.requests(instance, attempt, redraw=redraw)
        limit = requests[0].decoding.max_tokens if requests else None
        while requests:
            ended = await asyncio.gather(*map(call, requests))
            calls += [one for one in ended if isinstance(one, Call)]
            errors += [one for one in ended if isinstance(one, Exception)]
            requests = [] if errors else judge.requests(instance, attempt, calls, redraw)
        for error in errors:
            if isinstance(error, FatalCallError) or not isinstance(error, CallError):
                raise error
        scores: Mapping[str, Score] = {}
        problem: str | None = None
        outcome: JudgementOutcome = "ok"
        outcomes = {reply_outcome(call.reply) for call in calls}
        if errors:
            outcome, problem = "error", f"{type(errors[0]).__name__}: {errors[0]}"
        elif outcomes and outcomes <= UNANSWERED:
            outcome = "refused" if "refused" in outcomes else "empty"
            if limit and all(call.reply.is_truncated for call in calls):
                problem = f"Cut off before any text, at the judge's max_tokens: {limit}."
        else:
            try:
                scores = judge.parse(instance, attempt, calls)
            except Unparseable as error:
                outcome, problem = "unparseable", str(error)
        cost = judge.model.cost
        each = tuple(JudgeCall(one.reply.usage, cost(one.reply), one.cached) for one in calls)
        usages = [call.usage for call in each if call.usage is not None]
        costs = [call.cost_usd for call in each if call.cost_usd is not None]
        return replace(
            _judgement(judge.name, attempt, started, time.time(), scores),
            outcome=outcome,
            replies=tuple(call.reply.text for call in calls),
            call_ids=tuple(call.id for call in calls),
            usage=sum(usages, start=Usage()) if each and len(usages) == len(each) else None,
            cost_usd=sum(costs) if each and len(costs) == len(each) else None,
            cached=bool(each) and all(call.cached for call in each),
            error=problem,
            calls=each if len(each) > 1 else (),
        )

    def _by_panels(
        self, attempt: Attempt, panels: Mapping[str, JudgePanel], said: Mapping[str, Judgement]
    ) -> Iterator[Judgement]:
        for name, panel in panels.items():
            found = [said.get(member) for member in panel.of]
            members = [one for one in found if one is not None and one.outcome != "error"]
            if len(members) < len(found):
                continue
            times = min(m.started_at for m in members), max(m.ended_at for m in members)
            scores = {  # without ``JUDGE.`` before their names; None if the outcome is not ok
                one.judge: {key.partition(".")[2]: score for key, score in one.scores.items()}
                if one.outcome == "ok"
                else None
                for one in members
            }
            try:
                made = _judgement(name, attempt, *times, panel.combine(scores))
            except Unparseable as error:
                made = _judgement(name, attempt, *times, {})
                made = replace(made, outcome="unparseable", error=str(error))
            yield replace(made, cost_usd=0.0)


def _judgement(
    judge: str, attempt: Attempt, started: float, ended: float, scores: Mapping[str, Score]
) -> Judgement:
    try:
        scores = recordable(scores, attempt.instance)
    except ConfigError as error:
        remedy = f"No paid reply is lost: fix the judge {judge!r}, and run again."
        raise ConfigError(error.message, f"{error.remedy} {remedy}") from None
    return Judgement(
        v=SCHEMA_VERSION,
        judge=judge,
        instance=attempt.instance,
        sample=attempt.sample,
        round=attempt.round,
        attempt=text_hash(attempt.text or ""),
        outcome="ok",
        started_at=started,
        ended_at=ended,
        scores={f"{judge}.{name}": score for name, score in scores.items()},
    )
