"""The judges of a run score its answers.

A failed call, or a reply without a verdict, is recorded as the judgement's outcome, never as a
score of 0.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from harness.calls.calls import ReplyUnsaved
from harness.calls.signals import Notices
from harness.engine.assessment import (
    UNANSWERED,
    AnswerVerdict,
    Assessment,
    judged_outcomes,
    normalize_scores,
    reply_outcome,
)
from harness.engine.job import Job
from harness.engine.judges import JudgeModel, JudgePanel, Judges, build_panel, judge_warnings
from harness.engine.models import Model
from harness.engine.plan import RunPlan
from harness.engine.progress import Tally
from harness.engine.reasoning import RecordedAnswers
from harness.engine.session import BoundModel, Session, process_all
from harness.engine.turns import instance_of_attempt
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
from harness.wording import truncate

WARN_AFTER_JUDGEMENTS = 20  # if none of them has a verdict, the judge probably needs correction


class UnjudgedAttempt(NamedTuple):
    """An attempt that some judges have yet to judge."""

    instance: Instance[Any]  # of the turn that the attempt answers
    answer: Attempt  # with its reasoning separated
    recorded: Attempt  # its text identifies the attempt's judgements
    redraws: Mapping[str, int]  # the number of earlier judgements, by judge or panel


class MissingJudgements:
    """Attempts with judgements that are missing, have failed, or are to be retried.

    Args:
        path: The run's ``attempts.jsonl``.
        judges: Names of the judges and panels.
        reasoning: The marks of the reasoning in the answers.
        retried: Outcomes of judgements to retry.
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
        self._redraws_by_row = self._index.missing_judgements(judges, {*FAILED_OUTCOMES, *retried})

    def __len__(self) -> int:
        return len(self._redraws_by_row)

    def attempts(
        self, task: Task[Any], instances: Iterable[Instance[Any]]
    ) -> Iterator[UnjudgedAttempt]:
        """Yield the unjudged attempts of the task's instances."""
        if not self._redraws_by_row:
            return
        for instance in instances:
            rows = [
                row for row in self._index.find_rows(instance.id) if row in self._redraws_by_row
            ]
            attempts = list(self._index.read(Attempt, rows, judged=False))
            answers = self._answers.separate(attempts)
            for row, recorded, answer in zip(rows, attempts, answers, strict=True):
                turn_instance = instance_of_attempt(task, instance, answer, self._answers)
                yield UnjudgedAttempt(turn_instance, answer, recorded, self._redraws_by_row[row])

    def first_answered_request(
        self, judge: JudgeModel, instances: Iterable[Instance[Any]]
    ) -> Request | None:
        """Return a request that a judge has made in an earlier session, or None."""
        if (judgements := self._index.judgements) is None:
            return None
        is_judged = judgements.is_judged(self._index.attempts)
        for instance in instances:
            rows = [row for row in self._index.find_rows(instance.id) if is_judged[row]]
            rows = [row for row in rows if judge.name not in self._redraws_by_row.get(row, ())]
            attempts = self._index.read(Attempt, rows, judged=False)
            for answer in self._answers.separate(list(attempts)):
                turn_instance = instance_of_attempt(judge.task, instance, answer, self._answers)
                for request in judge.requests(turn_instance, answer):
                    return request
        return None


class Judging:
    """The part of a session that judges attempts.

    Args:
        judges: The judges and panels.
        bind: Returns a model with its call stack.
        attempts: The run's ``attempts.jsonl``.
        writer: Appends to the run's ``judgements.jsonl``.
        tally: Counts the judgements.
        reasoning: The marks of the reasoning in the answers.
        retried: Outcomes of earlier judgements to retry, besides failed ones.
        notices: Receives warnings.
        lost_attempts: Whether attempts that were judged before are restored. They keep their
            recorded judgements.
    """

    def __init__(
        self,
        judges: Judges,
        bind: Callable[[Model], BoundModel],
        attempts: Path,
        writer: JsonLinesWriter,
        tally: Tally,
        reasoning: Reasoning,
        *,
        retried: Collection[JudgementOutcome] = (),
        notices: Notices | None = None,
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
        self.missing = MissingJudgements(attempts, self._names, reasoning, retried)

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
            recorded = self._recorded_judgements(attempt)
        redraws = {name: 0 for name in self._names if name not in recorded}
        for judge in self._judges:
            if judge.name in recorded and recorded[judge.name].outcome in FAILED_OUTCOMES:
                n_earlier = self._judgement_index.count_judgements(
                    judge.name, *_attempt_key(attempt)
                )
                redraws[judge.name] = n_earlier
        unjudged = UnjudgedAttempt(instance, attempt, attempt, redraws)
        new = await self._make_judgements(unjudged, recorded)
        latest = recorded | {judgement.judge: judgement for judgement in new}
        return self._combine_verdicts(attempt, latest)._replace(new=new)

    def recorded_verdict(self, attempt: Attempt) -> AnswerVerdict:
        """Return an attempt's verdict from the judgements of earlier sessions."""
        if attempt.outcome not in self._outcomes:
            return AnswerVerdict(attempt.passed)
        return self._combine_verdicts(attempt, self._recorded_judgements(attempt))

    @cached_property
    def _judgement_index(self) -> JudgementIndex:
        return JudgementIndex(self._attempts.parent)  # this session's judgements are not looked up

    def _recorded_judgements(self, attempt: Attempt) -> dict[str, Judgement]:
        """Return the last judgement of an attempt by each judge that has judged it before."""
        return self._judgement_index.read_latest(*_attempt_key(attempt))

    def _combine_verdicts(self, attempt: Attempt, latest: Mapping[str, Judgement]) -> AnswerVerdict:
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

        It contains the task's feedback, unless the answer fails only because of the judges, and the
        deciding judges' reasons why scores fail.

        Args:
            by_rules: The task's feedback.
            assessment: The assessment by the task's rules.
            verdict: The verdict by rules and judges.
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
                self._count_verdict(judgement)
            for _, call in judgement.identified_calls():
                self._tally.count_call(call.usage, call.cost_usd, cached=call.cached)
        if self._unsaved is not None:
            raise self._unsaved

    def _count_verdict(self, judgement: Judgement) -> None:
        """Count a judgement by its verdict, and warn of a judge that gives none."""
        tally = self._tally
        scores = judgement.scores.values()
        tally.judgements[judgement.judge] += 1
        tally.split_passes[judgement.judge] += any(SPLIT_KEY in score.details for score in scores)
        undecided = [score for score in scores if score.value is None]
        if not undecided and judgement.outcome in ("ok", *FAILED_OUTCOMES):
            return
        kind = judgement.judge, "undecided" if undecided else judgement.outcome
        tally.verdictless[kind] += 1
        reasons = (score.reason for score in undecided if score.reason)
        reason = truncate(judgement.error or next(reasons, ""), 200)
        tally.reasons[kind] = reason
        self._warn_of_verdictless(judgement.judge, reason)

    def _warn_of_verdictless(self, judge: str, reason: str) -> None:
        n_without = sum(n for (name, _), n in self._tally.verdictless.items() if name == judge)
        if n_without == self._tally.judgements[judge] == WARN_AFTER_JUDGEMENTS:
            self._notices.reporter(f"judge {judge}")(
                f"none of its first {n_without} judgements has a verdict. {reason} "
                "Ctrl-C stops the run before the others are paid for.".lstrip()
            )

    async def catch_up_plan(
        self, job: Job, plan: RunPlan, session: Session, workers: int, *, restore: bool = False
    ) -> RunPlan:
        """Judge attempts that earlier sessions left unjudged, and return the plan thereafter.

        Args:
            job: The run.
            plan: Its plan so far.
            session: The session.
            workers: Number of attempts to judge concurrently.
            restore: Whether to restore lost judgements that were drawn again, too.
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

        Args:
            instances: The run's instances.
            workers: Number of attempts to judge concurrently.
            session: The session.

        Returns:
            The number of attempts that no panel could judge because a member's judgement is
            missing.
        """
        for model in self._judges:
            answered_request = partial(self.missing.first_answered_request, model, instances)
            session.earlier.setdefault(model.model.where, answered_request)
        return await self._judge_missing(self.missing, instances, workers, session)

    async def restore(
        self, instances: Iterable[Instance[Any]], workers: int, session: Session
    ) -> None:
        """Restore lost repetitions of undecided judgements whose replies are in the cache.

        Call this after the lost judgements have been repeated, which takes the first reply to each
        call.
        """
        seen = set[tuple[str, int, int, str, int]]()

        async def select_cached(unjudged: UnjudgedAttempt) -> Mapping[str, int]:
            cached_redraws = {}
            recorded = unjudged.recorded
            for judge in self._judges:
                redraw = unjudged.redraws.get(judge.name, 0)
                draw = (recorded.instance, recorded.sample, recorded.round, judge.name, redraw)
                if redraw == 0 or draw in seen:
                    continue
                requests = judge.requests(unjudged.instance, unjudged.answer, redraw=redraw)
                if requests and await session.has_replies(judge.model, requests):
                    seen.add(draw)
                    cached_redraws[judge.name] = redraw
            return cached_redraws

        n_seen_before = -1
        while n_seen_before < len(seen) and not session.stop.requested:
            n_seen_before = len(seen)
            missing = MissingJudgements(
                self._attempts, self._names, self._reasoning, REDRAWN_OUTCOMES
            )
            await self._judge_missing(missing, instances, workers, session, select_cached)

    async def _judge_missing(
        self,
        missing: MissingJudgements,
        instances: Iterable[Instance[Any]],
        workers: int,
        session: Session,
        select: Callable[[UnjudgedAttempt], Awaitable[Mapping[str, int]]] | None = None,
    ) -> int:
        """Make missing judgements.

        Args:
            missing: The judgements.
            instances: The run's instances.
            workers: Number of attempts to judge concurrently.
            session: The session.
            select: Selects the judges (and redraws) of an attempt. None: all that are missing.
                Selected judgements are repetitions, which do not count as progress.

        Returns:
            The number of attempts that no panel could judge because a member's judgement is
            missing.
        """
        if not len(missing):
            return 0
        # A panel's judgement may be missing although its members judged in an earlier session.
        index = JudgementIndex(self._attempts.parent) if self._panels else None
        n_waiting = 0

        async def judge(unjudged: UnjudgedAttempt) -> None:
            nonlocal n_waiting
            if select is not None:
                unjudged = unjudged._replace(redraws=await select(unjudged))
                if not unjudged.redraws:
                    return
            earlier: dict[str, Judgement] = {}
            if index is not None:
                earlier = index.read_latest(*_attempt_key(unjudged.recorded))
            judgements = await self._make_judgements(unjudged, earlier)
            self.record(judgements)
            if select is not None:
                return
            if judgements:
                self._tally.finish_sample()
            else:
                n_waiting += 1

        workers = min(workers, len(missing))
        await process_all(
            missing.attempts(self._task, instances), judge, workers=workers, stop=session.stop
        )
        return n_waiting

    async def _make_judgements(
        self, unjudged: UnjudgedAttempt, earlier: Mapping[str, Judgement]
    ) -> list[Judgement]:
        """Return the new judgements of an answer, by judges and by panels.

        Args:
            unjudged: The attempt, and its missing judges and panels.
            earlier: Its judgements so far, by judge or panel.
        """
        recorded = unjudged.recorded
        redraws = unjudged.redraws
        pending = [
            self._ask(judge, unjudged.instance, unjudged.answer, redraws[judge.name])
            for judge in self._judges
            if judge.name in redraws
        ]
        attempt_hash = text_hash(recorded.text or "")
        judgements: list[Judgement] = []
        for result in await asyncio.gather(*pending, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            judgements.append(replace(result, attempt=attempt_hash))
        latest = {**earlier, **{judgement.judge: judgement for judgement in judgements}}
        for name, panel in self._panels.items():
            if not {name, *panel.of}.isdisjoint(redraws):
                members = [latest[member] for member in panel.of if member in latest]
                judgements += self._combine_panel(name, panel, recorded, members)
        return judgements

    async def _ask(
        self, judge: JudgeModel, instance: Instance[Any], attempt: Attempt, redraw: int
    ) -> Judgement:
        """Return a judge's judgement of an attempt. ``redraw`` is the number of earlier ones."""
        started = time.time()
        requests = judge.requests(instance, attempt, redraw=redraw)
        max_tokens = requests[0].decoding.max_tokens if requests else None
        calls, errors = await self._make_calls(judge, instance, attempt, requests, redraw)
        for error in errors:
            if isinstance(error, FatalCallError) or not isinstance(error, CallError):
                raise error
        scores: Mapping[str, Score] = {}
        if errors:
            outcome: JudgementOutcome = "error"
            problem: str | None = f"{type(errors[0]).__name__}: {errors[0]}"
        else:
            outcome, problem = _outcome_without_answer(calls, max_tokens)
        if outcome == "ok":
            try:
                scores = judge.parse(instance, attempt, calls)
            except Unparseable as error:
                outcome = "unparseable"
                problem = str(error)
        judge_calls = tuple(_judge_call(judge, call) for call in calls)
        usages = [call.usage for call in judge_calls if call.usage is not None]
        costs = [call.cost_usd for call in judge_calls if call.cost_usd is not None]
        n_calls = len(calls)
        return replace(
            _judgement(judge.name, attempt, started, time.time(), scores),
            outcome=outcome,
            replies=tuple(call.reply.text for call in calls),
            call_ids=tuple(call.id for call in calls),
            usage=sum(usages, start=Usage()) if 0 < n_calls == len(usages) else None,
            cost_usd=sum(costs) if 0 < n_calls == len(costs) else None,
            cached=n_calls > 0 and all(call.cached for call in calls),
            error=problem,
            calls=judge_calls if n_calls > 1 else (),
        )

    async def _make_calls(
        self,
        judge: JudgeModel,
        instance: Instance[Any],
        attempt: Attempt,
        requests: Sequence[Request],
        redraw: int,
    ) -> tuple[list[Call], list[Exception]]:
        """Make a judge's first requests and those that follow. Return the calls and the errors."""
        ask = self._bind(judge.model).call

        async def call_or_error(request: Request) -> Call | Exception:
            try:
                return await ask(request)
            except ReplyUnsaved as error:  # raised by `record`, after writing
                self._unsaved = self._unsaved or error
                return error.call
            except Exception as error:  # the judgement's other calls are finished anyway
                return error

        calls: list[Call] = []
        errors: list[Exception] = []
        while requests:
            for result in await asyncio.gather(*map(call_or_error, requests)):
                if isinstance(result, Call):
                    calls.append(result)
                else:
                    errors.append(result)
            requests = [] if errors else judge.requests(instance, attempt, calls, redraw)
        return calls, errors

    def _combine_panel(
        self, name: str, panel: JudgePanel, attempt: Attempt, members: Sequence[Judgement]
    ) -> Iterator[Judgement]:
        """Yield a panel's judgement of an attempt, if all of its members have judged it."""
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


def _outcome_without_answer(
    calls: Sequence[Call], max_tokens: int | None
) -> tuple[JudgementOutcome, str | None]:
    """Return the outcome and the problem if no call of a judge has an answer, else ("ok", None)."""
    outcomes = {reply_outcome(call.reply) for call in calls}
    if not outcomes or not outcomes <= UNANSWERED:
        return "ok", None
    problem = None
    if max_tokens and all(call.reply.is_truncated for call in calls):
        problem = f"Cut off before any text, at the judge's max_tokens: {max_tokens}."
    return "refused" if "refused" in outcomes else "empty", problem


def _attempt_key(attempt: Attempt) -> tuple[str, int, int, str | None]:
    """Return what identifies an attempt's judgements."""
    return attempt.instance, attempt.sample, attempt.round, attempt.text


def _judge_call(judge: JudgeModel, call: Call) -> JudgeCall:
    return JudgeCall(call.reply.usage, judge.model.cost(call.reply), call.cached)


def _judgement(
    judge: str, attempt: Attempt, started: float, ended: float, scores: Mapping[str, Score]
) -> Judgement:
    try:
        scores = normalize_scores(scores, attempt.instance)
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
