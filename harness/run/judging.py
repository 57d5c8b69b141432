"""Judges at work: an attempt's answer is put before every judge of its run.

A judge is given the model's text and asks what it wants to know through a call stack of its
own, as any model is asked. A failed call, or replies without a verdict, are outcomes of the
judgement and never a 0. What is not an answer (refused, empty, failed, cut off and not
graded) is put before nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace as with_changes

from harness.calls.calls import ReplyUnsaved
from harness.calls.signals import Stop, Stopping
from harness.errors import CallError, FatalCallError, Unparseable
from harness.ports import Task
from harness.records import (
    REFUSALS,
    SCHEMA_VERSION,
    Attempt,
    Call,
    Instance,
    Outcome,
    Reply,
    Request,
    Score,
    Usage,
)
from harness.run.owed_judgements import OwedJudgements, Unjudged
from harness.run.seats import SeatedJudge, SeatedPanel
from harness.run.tally import Tally
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgement_index import JudgementIndex
from harness.store.judgements import (
    FAILED,
    JudgeCall,
    Judgement,
    JudgementOutcome,
    text_hash,
    verdict_over,
)


def judged_outcomes(task: Task[Any]) -> tuple[Outcome, ...]:
    """Outcomes of the attempts that are put before judges: there is an answer to read."""
    graded: tuple[Outcome, ...] = ("truncated",) if task.on_truncated == "grade" else ()
    return ("ok", *graded, "unparseable")


class Judging:
    """Puts attempts before the judges of a run and writes down what they say.

    judges, panels: at least one of both.
    outcomes: of the attempts that are put before them.
    attempts: the run's, which are in its folder.
    retried: outcomes of judgements that are made again, besides failed ones.

    late: attempts that were there before this session and that judges have still to judge.
    failed: judgements of this session that are failed calls.
    pending: attempts of `late` of which panels have still to wait for their judges.
    """

    def __init__(
        self,
        judges: Sequence[SeatedJudge],
        outcomes: Collection[Outcome],
        *,
        attempts: Path,
        writer: JsonLinesWriter,
        tally: Tally,
        stop: Stop,
        panels: Sequence[SeatedPanel] = (),
        retried: Collection[JudgementOutcome] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._judges, self._panels = judges, panels
        seats: list[SeatedJudge | SeatedPanel] = [*judges, *panels]
        self._names = [seat.name for seat in seats]
        self._deciding = [seat.name for seat in seats if seat.decides]
        self._outcomes = outcomes
        self._attempts = attempts
        self._writer = writer
        self._tally = tally
        self._stop = stop
        self._clock = clock
        self._error: BaseException | None = None
        self._unsaved: ReplyUnsaved | None = None
        self._owed = OwedJudgements(attempts, self._names, {*FAILED, *retried})
        self.late = len(self._owed)
        earlier = self.late and panels  # of what panels owe, their judges may have said all before
        self._earlier = JudgementIndex(attempts.parent) if earlier else None
        self._recorded: JudgementIndex | None = None
        self.failed = self.pending = 0

    def told(self) -> str:
        """What the user is to know of failed calls."""
        return (
            f"{self.failed:,} judgements failed, the last one thus: {self._tally.last_error}. "
            "To have them made, do the same again."
        )

    @property
    def decides(self) -> bool:
        """Whether any of them has a say in what passed."""
        return bool(self._deciding)

    async def judge(
        self, instance: Instance[Any], attempt: Attempt, names: Mapping[str, int] | None = None
    ) -> list[Judgement]:
        """What the judges say of an attempt, asked at the same time; nothing is written.

        names: of those that have still to judge it, and how often each has answered before; by
            default all, for the first time.

        Raises: the first error that does not belong to one call, once all have ended;
            what the others have said is in the cache.
        """
        if attempt.outcome not in self._outcomes:
            return []
        asked = [one for one in self._judges if names is None or one.name in names]
        ended = await asyncio.gather(
            *(self._ask(one, instance, attempt, (names or {}).get(one.name, 0)) for one in asked),
            return_exceptions=True,
        )
        for one in ended:
            if isinstance(one, BaseException):
                raise one
        made = [one for one in ended if isinstance(one, Judgement)]
        return [*made, *self._of_panels(attempt, made, names)] if self._panels else made

    def _of_panels(
        self, attempt: Attempt, made: Sequence[Judgement], names: Collection[str] | None
    ) -> Iterator[Judgement]:
        """What panels say, whose judges have said something new, or who have said nothing yet."""
        said = {judgement.judge: judgement for judgement in made}
        if names is not None and self._earlier is not None:
            of = (attempt.instance, attempt.sample, attempt.round, attempt.text)
            said = {**self._earlier.of(*of), **said}
        for panel in self._panels:
            if names is None or not {panel.name, *panel.panel.of}.isdisjoint(names):
                judgement = panel.judgement(attempt, said)
                if judgement is not None:
                    yield judgement

    def record(self, judgements: Iterable[Judgement]) -> None:
        """Write judgements down. Their attempt's line is there by then.

        Raises: StoreFailed, also where a reply could not be put into the cache.
        """
        for judgement in judgements:
            self._writer.append(judgement)
            self._count(judgement)
        if self._unsaved is not None:
            raise self._unsaved

    def verdict(
        self,
        passed: bool | None,
        scores: Mapping[str, Score],
        judgements: Sequence[Judgement],
    ) -> bool | None:
        """Whether an answer passed by its rules and these judgements: all that there are of it."""
        if not judgements:
            return passed
        said = {judgement.judge: judgement for judgement in judgements}
        return verdict_over(passed, scores, [said.get(name) for name in self._deciding])

    def recorded(self, attempt: Attempt) -> list[Judgement]:
        """What was written down of an attempt of an earlier session, or caught up in this one.

        Raises: DataInvalid, StoreFailed.
        """
        if attempt.outcome not in self._outcomes:
            return []
        if self._recorded is None:  # what is judged from now on is of attempts that are made now
            self._recorded = JudgementIndex(self._attempts.parent)
        of = (attempt.instance, attempt.sample, attempt.round, attempt.text)
        latest = self._recorded.of(*of)
        return [latest[name] for name in self._names if name in latest]

    def waiting(self, attempt: Attempt, judgements: Sequence[Judgement]) -> bool:
        """Whether a judge that decides has still to judge an attempt, since its call failed."""
        if attempt.outcome not in self._outcomes:
            return False
        said = {one.judge for one in judgements if one.outcome != "error"}
        return not said.issuperset(self._deciding)

    def feedback(
        self,
        by_rules: str,
        passed: bool | None,
        scores: Mapping[str, Score],
        judgements: Sequence[Judgement],
    ) -> str | None:
        """What the user's next turn says, with what deciding judges found wrong.

        None where nobody found anything wrong, and yet the answer has not passed: a judge has no
        verdict, and there is nothing to say.

        by_rules: what the task says; it is left out where no rule found anything wrong.
        passed, scores: the rules'.
        """
        wrong = [
            score.reason or f"The answer does not pass for {name.partition('.')[2]!r}."
            for judgement in judgements
            if judgement.judge in self._deciding
            for name, score in judgement.scores.items()
            if score.passed is False
        ]
        if wrong:
            return "\n".join([by_rules, *wrong] if passed is False else wrong)
        if passed is not False and self.verdict(passed, scores, judgements) is None:
            return None
        return by_rules

    async def catch_up(self, task: Task[Any], workers: int) -> None:
        """Judge what `late` counts.

        task: whose instances they are; one that is there no more is judged by nobody.

        Raises: as `judge`.
        """
        if not self.late:
            return
        work = self._owed.work(task)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(workers, self.late)):
                group.create_task(self._work(work))
        if self._error is not None:
            raise self._error

    async def _work(self, work: Iterator[Unjudged]) -> None:
        try:
            while not self._stop.requested and (owed := next(work, None)) is not None:
                made = await self.judge(owed.instance, owed.attempt, owed.judges)
                self.record(made)
                if made:
                    self._tally.finish_sample(None)
                else:
                    self.pending += 1
                await asyncio.sleep(0)  # a call that never waits must let the others have a turn
        except Stopping:
            return
        except Exception as error:
            self._error = self._error or error
            self._stop.request()

    async def _ask(
        self, seat: SeatedJudge, instance: Instance[Any], attempt: Attempt, redraw: int
    ) -> Judgement:
        """One judge's judgement; redraw: how often it has answered before."""
        started = self._clock()
        requests = seat.requests(instance, attempt, redraw)
        if len(requests) == 1:
            ended = [await self._call(seat, requests[0])]
        else:
            ended = await asyncio.gather(*(self._call(seat, one) for one in requests))
        calls = [one for one in ended if isinstance(one, Call)]
        errors = [one for one in ended if isinstance(one, Exception)]
        for error in errors:
            if isinstance(error, FatalCallError) or not isinstance(error, CallError):
                raise error
        scores: Mapping[str, Score] = {}
        problem: str | None = None
        outcome: JudgementOutcome = "ok"
        if errors:
            outcome, problem = "error", f"{type(errors[0]).__name__}: {errors[0]}"
        elif calls and not any(_says_something(call.reply) for call in calls):
            refused = any(call.reply.finish_reason in REFUSALS for call in calls)
            outcome = "refused" if refused else "empty"
        else:
            try:
                scores = seat.parse(attempt, instance, [_readable(call.reply) for call in calls])
            except Unparseable as error:
                outcome, problem = "unparseable", str(error)
        each = tuple(JudgeCall(one.reply.usage, seat.cost(one), one.cached) for one in calls)
        return Judgement(
            v=SCHEMA_VERSION,
            judge=seat.name,
            instance=attempt.instance,
            sample=attempt.sample,
            round=attempt.round,
            attempt=text_hash(attempt.text or ""),
            outcome=outcome,
            started_at=started,
            ended_at=self._clock(),
            scores={f"{seat.name}.{name}": score for name, score in scores.items()},
            replies=tuple(call.reply.text for call in calls),
            call_ids=tuple(call.id for call in calls),
            usage=_sum_usage(each),
            cost_usd=_sum_costs(each),
            cached=bool(each) and all(call.cached for call in each),
            error=problem,
            calls=each if len(each) > 1 else (),
        )

    async def _call(self, seat: SeatedJudge, request: Request) -> Call | Exception:
        """A call, or why there is none: the others of its judgement go on to their end."""
        try:
            return await seat.calls(request)
        except ReplyUnsaved as error:
            self._unsaved = error  # it ends the run, once what it cost is written down
            return error.call
        except Exception as error:
            return error

    def _count(self, judgement: Judgement) -> None:
        tally = self._tally
        if judgement.outcome == "error":
            self.failed += 1
            tally.last_error = f"judge {judgement.judge}: {judgement.error}"
        for _, call in judgement.each_call():
            tally.count_call(call)


def _says_something(reply: Reply) -> bool:
    return reply.finish_reason not in REFUSALS and bool(reply.text.strip())


def _readable(reply: Reply) -> Reply:
    """A reply as a judge reads it: "No, I will not" is a refusal and no verdict."""
    if _says_something(reply):
        return reply
    return with_changes(reply, text="", logprobs=None)


def _sum_usage(calls: Sequence[JudgeCall]) -> Usage | None:
    total = Usage()
    for call in calls:
        if call.usage is None:
            return None
        total += call.usage
    return total if calls else None


def _sum_costs(calls: Sequence[JudgeCall]) -> float | None:
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    return sum(costs) if calls and len(costs) == len(calls) else None
