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
from harness.engine.session import BoundModel, Session, work_off
from harness.engine.turns import answered
from harness.errors import CallError, ConfigError, FatalCallError, Unparseable
from harness.ports import Task
from harness.records import (
    SCHEMA_VERSION,
    SPLIT_KEY,
    Attempt,
    Call,
    Instance,
    Request,
    Score,
    Usage,
)
from harness.scoring.reasoning import Reasoning
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgement_index import JudgementIndex
from harness.store.judgements import (
    FAILED_OUTCOMES,
    REDRAWN_OUTCOMES,
    JudgeCall,
    Judgement,
    JudgementOutcome,
    combined_verdict,
    text_hash,
)
from harness.store.run_folder import JUDGEMENTS, RunFolder
from harness.wording import truncate

FIRST_JUDGEMENTS = 20  # if none has a verdict, a judge probably needs to be corrected


class AttemptToJudge(NamedTuple):
    """An attempt that some judges have yet to judge."""

    instance: Instance[Any]  # as of the turn that the attempt answers
    answer: Attempt  # with its reasoning separated
    recorded: Attempt  # its text identifies the attempt's judgements
    judges: Mapping[str, int]  # each with the number of its answers so far


class MissingJudgements:
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
        self._judges_by_row = self._index.missing_judgements(judges, {*FAILED_OUTCOMES, *retried})

    def __len__(self) -> int:
        return len(self._judges_by_row)

    def attempts(
        self, task: Task[Any], instances: Iterable[Instance[Any]]
    ) -> Iterator[AttemptToJudge]:
        """Yield the unjudged attempts of the task's instances."""
        if not self._judges_by_row:
            return
        for instance in instances:
            rows = [row for row in self._index.find_rows(instance.id) if row in self._judges_by_row]
            attempts = list(self._index.read(Attempt, rows, judged=False))
            answers = self._answers.of(attempts)
            for row, recorded, answer in zip(rows, attempts, answers, strict=True):
                turn = answered(task, instance, answer, self._answers)
                yield AttemptToJudge(turn, answer, recorded, self._judges_by_row[row])

    def answered(self, judge: JudgeModel, instances: Iterable[Instance[Any]]) -> Request | None:
        """Return the first request of a judgement that an earlier session has made, or None."""
        if (judgements := self._index.judgements) is None:
            return None
        judged = judgements.is_judged(self._index.attempts)
        for instance in instances:
            rows = [row for row in self._index.find_rows(instance.id) if judged[row]]
            rows = [row for row in rows if judge.name not in self._judges_by_row.get(row, ())]
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
        self._lost_attempts = lost_attempts
        self._notices = notices or Notices()
        self._judges = judges.models
        self._names = judges.names
        self._deciding = judges.deciding
        self._task = judges.task
        self._bind = bind
        self._outcomes = judged_outcomes(judges.task)
        self._panels = {section.as_: build_panel(section) for section in judges.panels}
        self._attempts = attempts
        self._writer = writer
        self._tally = tally
        self._reasoning = reasoning
        self._unsaved: ReplyUnsaved | None = None
        # Left by earlier sessions
        self.late = MissingJudgements(attempts, self._names, reasoning, retried)

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
        with JsonLinesWriter(folder.path / JUDGEMENTS, folder.line_sealer()) as writer:
            yield cls(
                judges,
                partial(bind, session),
                folder.attempts,
                writer,
                tally,
                reasoning,
                notices=session.notices,
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
        # A later round with the same text may be of another conversation, unless it is restored:
        # a reply from the cache takes no time.
        from_cache = attempt.started_at == attempt.ended_at
        if self._lost_attempts and (attempt.round == 1 or from_cache):
            recorded = self._earlier(attempt)
        # Judges and panels, each with the number of its answers so far
        missing = {name: 0 for name in self._names if name not in recorded}
        for judge in self._judges:
            if judge.name in recorded and recorded[judge.name].outcome in FAILED_OUTCOMES:
                missing[judge.name] = self._recorded.count_answers(judge.name, *_place(attempt))
        new = await self._judge(instance, attempt, attempt, missing, recorded)
        latest = recorded | {judgement.judge: judgement for judgement in new}
        return self._verdict(attempt, latest)._replace(new=new)

    def recorded(self, attempt: Attempt) -> AnswerVerdict:
        """Return an attempt's verdict from the judgements of earlier sessions."""
        if attempt.outcome not in self._outcomes:
            return AnswerVerdict(attempt.passed)
        return self._verdict(attempt, self._earlier(attempt))

    @cached_property
    def _recorded(self) -> JudgementIndex:
        return JudgementIndex(self._attempts.parent)  # this session's judgements are not looked up

    def _earlier(self, attempt: Attempt) -> dict[str, Judgement]:
        """Return the last judgement of an attempt by each judge that has judged it before."""
        return self._recorded.read_latest(*_place(attempt))

    def _verdict(self, attempt: Attempt, latest: Mapping[str, Judgement]) -> AnswerVerdict:
        """Return an attempt's verdict from the latest judgements by judge and panel."""
        judgements = [latest[name] for name in self._names if name in latest]
        judged = {judgement.judge for judgement in judgements if judgement.outcome != "error"}
        passed = attempt.passed
        if judgements:
            deciding = [latest.get(name) for name in self._deciding]
            passed = combined_verdict(passed, attempt.scores, deciding)
        return AnswerVerdict(passed, judgements, not judged.issuperset(self._deciding))

    def feedback(self, by_rules: str, assessment: Assessment, verdict: AnswerVerdict) -> str | None:
        """Return the user's next message, or None if a verdict is missing.

        It contains the task's feedback (``by_rules``), unless the answer fails only because of the
        judges, and the deciding judges' reasons why scores fail.
        """
        if not self._deciding:
            return by_rules
        if verdict.pending:
            return None
        reasons: list[str] = []
        for judgement in verdict.judgements:
            if judgement.judge not in self._deciding:
                continue
            for name, score in judgement.scores.items():
                if score.passed is False:
                    default = f"The answer does not pass for {name.partition('.')[2]!r}."
                    reasons.append(score.reason or default)
        fails_by_rules = assessment.passed is False
        if reasons:
            return "\n".join([by_rules, *reasons] if fails_by_rules else reasons)
        return None if not fails_by_rules and verdict.passed is None else by_rules

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
                split = any(SPLIT_KEY in score.details for score in judgement.scores.values())
                self._tally.split_passes[judgement.judge] += split
                undecided = [score for score in judgement.scores.values() if score.value is None]
                if undecided or judgement.outcome not in ("ok", *FAILED_OUTCOMES):
                    kind = judgement.judge, "undecided" if undecided else judgement.outcome
                    self._tally.verdictless[kind] += 1
                    reasons = (score.reason for score in undecided if score.reason)
                    reason = truncate(judgement.error or next(reasons, ""), 200)
                    self._tally.reasons[kind] = reason
                    self._warn_of_verdictless(judgement.judge, reason)
            for _, call in judgement.identified_calls():
                self._tally.count_call(call.usage, call.cost_usd, cached=call.cached)
        if self._unsaved is not None:
            raise self._unsaved

    def _warn_of_verdictless(self, judge: str, reason: str) -> None:
        without = sum(n for (name, _), n in self._tally.verdictless.items() if name == judge)
        if without == self._tally.judgements[judge] == FIRST_JUDGEMENTS:
            self._notices.reporter(f"judge {judge}")(
                f"none of its first {without} judgements has a verdict. {reason} "
                "Ctrl-C stops the run before the others are paid for.".lstrip()
            )

    async def caught_up(
        self, job: Job, plan: RunPlan, session: Session, workers: int, *, restore: bool = False
    ) -> RunPlan:
        """Judge attempts left unjudged. Return the plan, renewed if verdicts may have changed.

        If ``restore``, judgements were lost, and those that were drawn again are restored.
        """
        for name, warning in judge_warnings(job.judges, job.instances):
            session.notices.reporter(f"judge {name}")(warning)
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
        """Restore lost repetitions of undecided judgements whose replies are in the cache.

        Call this when what was lost has been repeated, which takes the first reply to each call.
        """
        seen = set[tuple[str, int, int, str, int]]()

        async def restorable(work: AttemptToJudge) -> Mapping[str, int]:
            judges = {}
            recorded = work.recorded
            for judge in self._judges:
                redraw = work.judges.get(judge.name, 0)
                draw = (recorded.instance, recorded.sample, recorded.round, judge.name, redraw)
                if redraw == 0 or draw in seen:
                    continue
                requests = judge.requests(work.instance, work.answer, redraw=redraw)
                if requests and await session.has_replies(judge.model, requests):
                    seen.add(draw)
                    judges[judge.name] = redraw
            return judges

        before = -1
        while before < len(seen) and not session.stop.requested:
            before = len(seen)
            late = MissingJudgements(self._attempts, self._names, self._reasoning, REDRAWN_OUTCOMES)
            await self._judge_late(late, instances, workers, session, restorable)

    async def _judge_late(
        self,
        late: MissingJudgements,
        instances: Iterable[Instance[Any]],
        workers: int,
        session: Session,
        restorable: Callable[[AttemptToJudge], Awaitable[Mapping[str, int]]] | None = None,
    ) -> int:
        """Make judgements, of ``restorable`` ones only, if given (they do not count as missing).

        Returns:
            The number of attempts that no panel could judge because a member's judgement is
            missing.
        """
        if not len(late):
            return 0
        # A panel may still owe a judgement although its members gave theirs in an earlier session.
        earlier = JudgementIndex(self._attempts.parent) if self._panels else None
        waiting = 0

        async def judge(work: AttemptToJudge) -> None:
            nonlocal waiting
            if restorable is not None:
                work = work._replace(judges=await restorable(work))
                if not work.judges:
                    return
            before = earlier.read_latest(*_place(work.recorded)) if earlier is not None else {}
            judgements = await self._judge(
                work.instance, work.answer, work.recorded, work.judges, before
            )
            self.record(judgements)
            if restorable is not None:
                return
            if judgements:
                self._tally.finish_sample()
            else:
                waiting += 1

        workers = min(workers, len(late))
        await work_off(
            late.attempts(self._task, instances), judge, workers=workers, stop=session.stop
        )
        return waiting

    async def _judge(
        self,
        instance: Instance[Any],
        answer: Attempt,
        recorded: Attempt,
        judges: Mapping[str, int],
        earlier: Mapping[str, Judgement],
    ) -> list[Judgement]:
        """Return the new judgements of an answer, by judges and by panels.

        Args:
            instance: As of the turn that is answered.
            answer: The attempt with its reasoning separated.
            recorded: The attempt as recorded, whose text identifies its judgements.
            judges: The judges and panels, each with the number of its answers so far.
            earlier: The judgements so far.
        """
        models = [model for model in self._judges if model.name in judges]
        pending = (self._ask(model, instance, answer, judges[model.name]) for model in models)
        attempt_hash = text_hash(recorded.text or "")
        judgements: list[Judgement] = []
        for result in await asyncio.gather(*pending, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            judgements.append(replace(result, attempt=attempt_hash))
        latest = {**earlier, **{judgement.judge: judgement for judgement in judgements}}
        for name, panel in self._panels.items():
            if not {name, *panel.of}.isdisjoint(judges):
                members = [latest[member] for member in panel.of if member in latest]
                judgements += self._by_panel(name, panel, recorded, members)
        return judgements

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
            for result in await asyncio.gather(*map(call, requests)):
                if isinstance(result, Call):
                    calls.append(result)
                else:
                    errors.append(result)
            requests = [] if errors else judge.requests(instance, attempt, calls, redraw)
        for error in errors:
            if isinstance(error, FatalCallError) or not isinstance(error, CallError):
                raise error
        scores: Mapping[str, Score] = {}
        problem: str | None = None
        outcome: JudgementOutcome = "ok"
        outcomes = {reply_outcome(call.reply) for call in calls}
        if errors:
            outcome = "error"
            problem = f"{type(errors[0]).__name__}: {errors[0]}"
        elif outcomes and outcomes <= UNANSWERED:
            outcome = "refused" if "refused" in outcomes else "empty"
            if limit and all(call.reply.is_truncated for call in calls):
                problem = f"Cut off before any text, at the judge's max_tokens: {limit}."
        else:
            try:
                scores = judge.parse(instance, attempt, calls)
            except Unparseable as error:
                outcome = "unparseable"
                problem = str(error)
        judge_calls = tuple(_judge_call(judge, call) for call in calls)
        usages = [call.usage for call in judge_calls if call.usage is not None]
        costs = [call.cost_usd for call in judge_calls if call.cost_usd is not None]
        n = len(calls)
        return replace(
            _judgement(judge.name, attempt, started, time.time(), scores),
            outcome=outcome,
            replies=tuple(call.reply.text for call in calls),
            call_ids=tuple(call.id for call in calls),
            usage=sum(usages, start=Usage()) if 0 < n == len(usages) else None,
            cost_usd=sum(costs) if 0 < n == len(costs) else None,
            cached=n > 0 and all(call.cached for call in calls),
            error=problem,
            calls=judge_calls if n > 1 else (),
        )

    def _by_panel(
        self, name: str, panel: JudgePanel, attempt: Attempt, members: Sequence[Judgement]
    ) -> Iterator[Judgement]:
        """Yield the judgement by a panel, if all of its members have judged an attempt."""
        if len(members) < len(panel.of) or any(member.outcome == "error" for member in members):
            return
        started = min(member.started_at for member in members)
        ended = max(member.ended_at for member in members)
        scores: dict[str, dict[str, Score] | None] = {}
        for member in members:
            scores[member.judge] = None
            if member.outcome == "ok":
                # Without ``JUDGE.`` before their names
                scores[member.judge] = {
                    key.partition(".")[2]: score for key, score in member.scores.items()
                }
        try:
            judgement = _judgement(name, attempt, started, ended, panel.combine(scores))
        except Unparseable as error:
            judgement = _judgement(name, attempt, started, ended, {})
            judgement = replace(judgement, outcome="unparseable", error=str(error))
        yield replace(judgement, cost_usd=0.0)


def _place(attempt: Attempt) -> tuple[str, int, int, str | None]:
    """Return what identifies an attempt's judgements."""
    return attempt.instance, attempt.sample, attempt.round, attempt.text


def _judge_call(judge: JudgeModel, call: Call) -> JudgeCall:
    return JudgeCall(call.reply.usage, judge.model.cost(call.reply), call.cached)


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
