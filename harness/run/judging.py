"""Judging: every answer of a run is scored by all of its judges.

A judge's calls go through a call stack, as any model's do. A failed call, or replies without a
verdict, are outcomes of the judgement and never a 0. Attempts without an answer (refused, empty,
failed, truncated and not graded) are not judged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from harness.calls.calls import ReplyUnsaved
from harness.calls.signals import Stop
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
from harness.run.assessment import AnswerVerdict, Assessment
from harness.run.bound_judges import BoundJudge, BoundJudges
from harness.run.pool import Tally, work_off
from harness.store.index import AttemptIndex
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
    """Return the outcomes of the attempts that judges score: those with an answer to read."""
    graded: tuple[Outcome, ...] = ("truncated",) if task.on_truncated == "grade" else ()
    return ("ok", *graded, "unparseable")


class Unjudged(NamedTuple):
    """An attempt that some judges have yet to judge.

    Attributes:
        judges: How often each of these judges has answered before, by name.
    """

    instance: Instance[Any]
    attempt: Attempt
    judges: Mapping[str, int]


class OwedJudgements:
    """The attempts of a run that its judges have yet to judge, according to its files.

    Args:
        path: The run's attempts file.
        judges: Names of the judges.
        retried: Outcomes of judgements that are retried, besides failed ones.

    Raises:
        DataInvalid: A line cannot be read.
        StoreFailed: A file cannot be read.
    """

    def __init__(
        self, path: Path, judges: Sequence[str], retried: Collection[JudgementOutcome] = ()
    ) -> None:
        self._index = AttemptIndex(path)
        self._owed = self._index.owed_judgements(judges, {*FAILED, *retried})

    def __len__(self) -> int:
        return len(self._owed)

    def work(self, instances: Iterable[Instance[Any]]) -> Iterator[Unjudged]:
        """Yield each of them, in the order of the instances; attempts of other instances are
        skipped.

        Raises:
            DataInvalid: A line is damaged.
            StoreFailed: The attempts cannot be read.
        """
        if not self._owed:
            return
        for instance in instances:
            rows = [row for row in self._index.rows_of(instance.id) if row in self._owed]
            attempts = self._index.read(Attempt, rows, judged=False)
            for row, attempt in zip(rows, attempts, strict=True):
                yield Unjudged(instance, attempt, self._owed[row])


class Judging:
    """Has attempts judged, and writes the judgements.

    Args:
        bound: The judges.
        attempts: The run's attempts, in its folder.
        writer: Writes the judgements.
        tally: Counts calls and failed judgements.
        retried: Outcomes of judgements that are retried, besides failed ones.
        clock: Seconds since the epoch.

    Attributes:
        late: Judgements owed from earlier sessions.
    """

    def __init__(
        self,
        bound: BoundJudges,
        attempts: Path,
        writer: JsonLinesWriter,
        tally: Tally,
        retried: Collection[JudgementOutcome] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._bound = bound
        self._deciding = bound.deciding
        self._attempts = attempts
        self._writer = writer
        self._tally = tally
        self._clock = clock
        self._recorded: JudgementIndex | None = None
        self.late = OwedJudgements(attempts, bound.names, retried)

    @property
    def decides(self) -> bool:
        """Whether any judge decides on what passed."""
        return bool(self._deciding)

    async def judge(self, instance: Instance[Any], attempt: Attempt) -> AnswerVerdict:
        """Have all judges judge an attempt, at the same time; nothing is written.

        Raises:
            Exception: The first error that does not belong to one call, once all calls have
                ended; what the others said is in the cache.
        """
        if attempt.outcome not in self._bound.outcomes:
            return AnswerVerdict(attempt.passed)
        names = {judge.name: 0 for judge in self._bound.judges}
        made, unsaved = await self._ask_all(instance, attempt, names)
        said = {one.judge: one for one in made}
        for panel in self._bound.panels:
            if (one := panel.judgement(attempt, said)) is not None:
                made.append(one)
        return self._verdict(attempt, made)._replace(unsaved=unsaved)

    def recorded(self, attempt: Attempt) -> AnswerVerdict:
        """Return the recorded verdict on an attempt, read from the file.

        Raises:
            DataInvalid: A line cannot be read.
            StoreFailed: The file cannot be read.
        """
        if attempt.outcome not in self._bound.outcomes:
            return AnswerVerdict(attempt.passed)
        if self._recorded is None:  # what this session judges from now on is not asked for
            self._recorded = JudgementIndex(self._attempts.parent)
        latest = self._recorded.of(attempt.instance, attempt.sample, attempt.round, attempt.text)
        said = [latest[name] for name in self._bound.names if name in latest]
        return self._verdict(attempt, said)

    def _verdict(self, attempt: Attempt, judgements: Sequence[Judgement]) -> AnswerVerdict:
        said = {one.judge: one for one in judgements}
        heard = {one.judge for one in judgements if one.outcome != "error"}
        passed = attempt.passed
        if judgements:
            deciding = [said.get(name) for name in self._deciding]
            passed = verdict_over(passed, attempt.scores, deciding)
        return AnswerVerdict(passed, judgements, not heard.issuperset(self._deciding))

    def feedback(self, by_rules: str, found: Assessment, verdict: AnswerVerdict) -> str | None:
        """Write the user's next turn, with what deciding judges found wrong.

        Args:
            by_rules: The task's feedback; omitted if no rule found anything wrong.
            found: The verdict of the rules.
            verdict: The verdict of rules and judges.

        Returns:
            None if nothing was found wrong although the answer has not passed: a judge has no
            verdict, so there is nothing to say.
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

    def record(self, verdict: AnswerVerdict) -> None:
        """Write judgements; the line of their attempt must exist.

        Raises:
            StoreFailed: They cannot be written, or a reply could not be put into the cache.
        """
        for judgement in verdict.judgements:
            self._writer.append(judgement)
            if judgement.outcome == "error":
                self._tally.failed_judgements += 1
                self._tally.last_error = f"judge {judgement.judge}: {judgement.error}"
            for _, call in judgement.each_call():
                self._tally.count_call(call.usage, call.cost_usd, cached=call.cached)
        if verdict.unsaved is not None:
            raise verdict.unsaved

    async def catch_up(self, instances: Iterable[Instance[Any]], workers: int, stop: Stop) -> int:
        """Judge what earlier sessions left unjudged.

        Args:
            instances: Instances of the task; an attempt whose instance is not among them is not
                judged.
            workers: Number of attempts judged at the same time.
            stop: Ends it early.

        Returns:
            The number of attempts that a panel cannot judge yet, because its members have not.

        Raises:
            Exception: As `judge`.
        """
        if not len(self.late):
            return 0
        # What panels owe, their members may have said in an earlier session.
        panels = self._bound.panels
        earlier = JudgementIndex(self._attempts.parent) if panels else None
        waiting = 0

        async def judge(work: Unjudged) -> None:
            nonlocal waiting
            instance, attempt, names = work
            made, unsaved = await self._ask_all(instance, attempt, names)
            said: dict[str, Judgement] = {}
            if earlier is not None:
                said = earlier.of(attempt.instance, attempt.sample, attempt.round, attempt.text)
            said |= {one.judge: one for one in made}
            for panel in panels:
                if not {panel.name, *panel.panel.of}.isdisjoint(names):
                    one = panel.judgement(attempt, said)
                    made += [] if one is None else [one]
            self.record(AnswerVerdict(None, made, unsaved=unsaved))
            if made:
                self._tally.finish_sample()
            else:
                waiting += 1

        workers = min(workers, len(self.late))
        await work_off(self.late.work(instances), judge, workers=workers, stop=stop)
        return waiting

    async def _ask_all(
        self, instance: Instance[Any], attempt: Attempt, names: Mapping[str, int]
    ) -> tuple[list[Judgement], ReplyUnsaved | None]:
        """Return the judgements of these judges, and an error in saving a reply, if there was
        one.
        """
        asked = [judge for judge in self._bound.judges if judge.name in names]
        ended = await asyncio.gather(
            *(self._ask(judge, instance, attempt, names[judge.name]) for judge in asked),
            return_exceptions=True,
        )
        made: list[Judgement] = []
        unsaved = None
        for one in ended:
            if isinstance(one, BaseException):
                raise one
            judgement, problem = one
            made.append(judgement)
            unsaved = unsaved or problem
        return made, unsaved

    async def _ask(
        self, judge: BoundJudge, instance: Instance[Any], attempt: Attempt, redraw: int
    ) -> tuple[Judgement, ReplyUnsaved | None]:
        """Return one judge's judgement; ``redraw`` is how often it has answered before."""
        started = self._clock()
        requests = judge.requests(instance, attempt, redraw)
        ended = await asyncio.gather(*(_call(judge, request) for request in requests))
        calls = [one.call if isinstance(one, ReplyUnsaved) else one for one in ended]
        unsaved = next((one for one in ended if isinstance(one, ReplyUnsaved)), None)
        errors = [one for one in calls if isinstance(one, Exception)]
        for error in errors:
            if isinstance(error, FatalCallError) or not isinstance(error, CallError):
                raise error
        answered = [one for one in calls if isinstance(one, Call)]
        scores: Mapping[str, Score] = {}
        problem: str | None = None
        outcome: JudgementOutcome = "ok"
        if errors:
            outcome, problem = "error", f"{type(errors[0]).__name__}: {errors[0]}"
        elif answered and not any(_has_text(call.reply) for call in answered):
            refused = any(call.reply.finish_reason in REFUSALS for call in answered)
            outcome = "refused" if refused else "empty"
        else:
            # "No, I will not" is a refusal and no verdict: a judge sees it as empty.
            replies = [
                one.reply if _has_text(one.reply) else replace(one.reply, text="", logprobs=None)
                for one in answered
            ]
            try:
                scores = judge.parse(instance, attempt, replies)
            except Unparseable as error:
                outcome, problem = "unparseable", str(error)
        each = [JudgeCall(one.reply.usage, judge.model.cost(one), one.cached) for one in answered]
        usages = [call.usage for call in each if call.usage is not None]
        costs = [call.cost_usd for call in each if call.cost_usd is not None]
        judgement = Judgement(
            v=SCHEMA_VERSION,
            judge=judge.name,
            instance=attempt.instance,
            sample=attempt.sample,
            round=attempt.round,
            attempt=text_hash(attempt.text or ""),
            outcome=outcome,
            started_at=started,
            ended_at=self._clock(),
            scores={f"{judge.name}.{name}": score for name, score in scores.items()},
            replies=tuple(call.reply.text for call in answered),
            call_ids=tuple(call.id for call in answered),
            usage=sum(usages, start=Usage()) if each and len(usages) == len(each) else None,
            cost_usd=sum(costs) if each and len(costs) == len(each) else None,
            cached=bool(each) and all(call.cached for call in each),
            error=problem,
            calls=tuple(each) if len(each) > 1 else (),
        )
        return judgement, unsaved


async def _call(judge: BoundJudge, request: Request) -> Call | Exception:
    """Return a call, or why there is none: the others of its judgement are finished anyway."""
    try:
        return await judge.model.call(request)
    except Exception as error:
        return error


def _has_text(reply: Reply) -> bool:
    return reply.finish_reason not in REFUSALS and bool(reply.text.strip())
