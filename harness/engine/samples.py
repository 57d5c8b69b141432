"""The rounds of a sample: build messages, call, assess, judge, write, then start the next round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType, convert
from msgspec.structs import replace

from harness.calls.calls import ReplyUnsaved
from harness.calls.signals import Stop, Stopping
from harness.engine.assessment import (
    LONG,
    UNANSWERED,
    AnswerVerdict,
    Assessment,
    LongAnswers,
    assess,
    crashed,
    feedback,
    refuses_constraint,
    worded,
)
from harness.engine.plan import RunPlan, UnfinishedSample
from harness.engine.progress import Verdicts
from harness.engine.reasoning import RecordedAnswers
from harness.engine.session import BoundModel
from harness.engine.turns import (
    AnsweredTurn,
    Messages,
    Rewriter,
    UserTurnMissing,
    UserTurns,
    as_of,
    turn_verdicts,
    user_role,
    user_turn,
    verdict_on_all,
)
from harness.errors import CallError, Crashed, FatalCallError
from harness.ports import Task, overrides_method
from harness.records import (
    CONSTRAINT_REFUSED,
    CRASH_VERSION,
    SCHEMA_VERSION,
    TOOL_CALLS,
    Attempt,
    Call,
    Instance,
    Origin,
    Reply,
    Request,
    Rewriting,
    Usage,
    content_hash,
    extend_conversation,
    messages_hash,
)

if TYPE_CHECKING:
    from harness.engine.judging import Judging  # not imported for a run without judges

CALLED_A_TOOL = "The model called a tool, so the conversation cannot continue without its result."

Rewritings = tuple[Rewriting, ...]
NO_VERDICT = AnswerVerdict(None)


@dataclass(slots=True)
class _Sample:
    """A sample whose missing rounds are run, with its conversation so far."""

    unfinished: UnfinishedSample
    cluster: str
    messages: Messages  # empty if the next round cannot start yet
    rewritings: Rewritings  # made for the next round
    answers: list[str]
    before: Verdicts  # on the first and latest rounds
    turn_verdicts: list[bool | None]  # of a conversation
    played: UserTurns | None  # None: no model plays the user
    last: int  # number of the last round


@dataclass(slots=True)
class SampleRunner:
    """Runs the rounds of unfinished samples, for all workers of a run."""

    plan: RunPlan
    bound: BoundModel
    # Writes and counts an attempt, given its verdict and the sample's verdicts before it.
    record: Callable[[Attempt, bool | None, Verdicts], None]
    stop: Stop  # once requested, no further round starts
    judging: Judging | None = None  # None: the rules alone decide
    paraphraser: Rewriter | None = None  # None: send the user's turns unchanged
    long_answers: LongAnswers | None = None  # None: score long answers in this process too
    user: Callable[[Instance[Any]], UserTurns] | None = None  # None: no model plays the user
    # Whether a round is asked for; if not, the sample is left as it is.
    accepts: Callable[[Request], Awaitable[bool]] | None = None

    async def finish(self, unfinished: UnfinishedSample) -> int:
        """Run a sample's missing rounds, and return how many were recorded.

        A call that fails for this sample alone is recorded as an attempt and ends the sample.

        `Stopping`, and any failure that affects more than this sample, is raised only after the
        replies received so far have been recorded.
        """
        sample = await self._begin(unfinished)
        if not sample.messages:
            return 0
        for number in range(unfinished.round, sample.last + 1):
            if self.stop.requested:
                raise Stopping
            instance = as_of(self.plan.task, unfinished.instance, sample.answers)
            prompt = messages_hash(sample.messages)
            if self.accepts and self.plan.follows(unfinished, number, prompt):
                return number - unfinished.round
            request = self.plan.request(
                unfinished._replace(instance=instance), number, sample.messages, prompt
            )
            if self.accepts and not await self.accepts(request):
                return number - unfinished.round
            started = self._started(sample, _as_recorded(request, prompt), number)
            follows = await self._round(sample, started, instance, request)
            if not follows or unfinished.is_replaced:
                break
        return number - unfinished.round + 1

    async def _begin(self, unfinished: UnfinishedSample) -> _Sample:
        """Return a sample with its conversation before the first missing round."""
        instance = unfinished.instance
        opening, cluster = self.plan.opening(instance)
        earlier: list[Attempt] = []
        if (index := self.plan.index) is not None:
            recorded = RecordedAnswers(index, self.bound.model.reasoning)
            earlier = recorded.rounds(instance.id, unfinished.sample, unfinished.round)
        messages, rewritings = await self._conversation(unfinished, opening, earlier)
        played: UserTurns | None = None
        if self.user is not None and user_role(self.plan.task, instance) is not None:
            played = self.user(instance)
        return _Sample(
            unfinished,
            cluster,
            messages,
            rewritings,
            answers=[attempt.text or "" for attempt in earlier],
            before=self.plan.verdicts(unfinished),
            turn_verdicts=self.plan.turn_verdicts(unfinished) if unfinished.turns > 1 else [],
            played=played,
            last=max(unfinished.turns, self.plan.run.rounds.max),
        )

    def _started(self, sample: _Sample, request: dict[str, Any], number: int) -> Attempt:
        """Return the attempt of a round that has no answer yet."""
        unfinished = sample.unfinished
        turns: int | UnsetType = UNSET
        if sample.played is not None:
            turns = number + 1
        elif unfinished.turns > 1:
            turns = unfinished.turns
        return Attempt(
            v=SCHEMA_VERSION,
            instance=unfinished.instance.id,
            sample=unfinished.sample,
            round=number,
            groups=unfinished.instance.groups,
            cluster=sample.cluster,
            request=request,
            outcome="error",
            started_at=time.time(),
            ended_at=0.0,
            polish=sample.rewritings,
            turns=turns,
        )

    async def _round(
        self, sample: _Sample, started: Attempt, instance: Instance[Any], request: Request
    ) -> bool:
        """Run a round of a sample, record its attempt, and return whether another one follows.

        ``instance`` is that of the sample as of its turn.
        """
        call = await self._call(sample, started, instance, request)
        if call is None:
            return False
        is_last = started.round == sample.last
        if not is_last and call.reply.finish_reason in TOOL_CALLS:
            unanswerable = Assessment("error", None, {}, CALLED_A_TOOL)
            self.record(self._answered(started, call, unanswerable), None, sample.before)
            return False
        sample.answers.append(call.reply.text)
        scoring = _Scoring(self, started, call)
        turn: str | None = None  # the user's next turn; without one, the sample ends
        try:
            if sample.played is None:
                turn = await self._next_turn(sample, scoring, instance)
            else:
                answer = AnsweredTurn(
                    instance,
                    sample.messages,
                    call.reply,
                    request.origin,
                    last=is_last,
                    answers=sample.answers,
                    score=scoring.score,
                )
                turn = await sample.played.next_turn(answer)
            if turn is not None:
                turn, rewritings = await self._rewritten(
                    turn, "feedback", sample.unfinished.instance, request.origin
                )
                scoring.add(turn, rewritings)
        except UserTurnMissing as missing:
            unscored = Assessment("error", None, {}, missing.problem)
            started = replace(started, **missing.fields)
            self.record(self._answered(started, call, unscored), None, sample.before)
            return False
        finally:  # The reply was paid for; the next session adds what is missing.
            if scoring.attempt is not None:
                passed = scoring.verdict.passed
                if sample.unfinished.turns > 1:
                    sample.turn_verdicts += turn_verdicts(scoring.attempt, scoring.verdict)
                    passed = verdict_on_all(sample.turn_verdicts) if turn is None else None
                self.record(scoring.attempt, passed, sample.before)
                if self.judging is not None:
                    self.judging.record(scoring.verdict.new)
                sample.before = sample.before._replace(latest=passed)
        if turn is None:
            return False
        reply = call.reply
        sample.messages = extend_conversation(
            sample.messages, reply.text, turn, reply.reasoning_state
        )
        sample.rewritings = ()
        return True

    async def _next_turn(
        self, sample: _Sample, scoring: _Scoring, instance: Instance[Any]
    ) -> str | None:
        """Have an answer scored, and return the user's next turn, or None to end the sample.

        That is the script's next turn, or feedback, until an answer passes if ``stop_on_pass``.
        """
        assessment, verdict = await scoring.score(instance)
        if scoring.started.round == sample.last:
            return None
        if sample.unfinished.turns > 1:
            if assessment.outcome in UNANSWERED:
                return None
            return user_turn(self.plan.task, sample.unfinished.instance, sample.answers)
        passed = verdict.passed is True and self.plan.run.rounds.stop_on_pass
        if passed or assessment.unscored:
            return None
        return await self._feedback(instance, scoring.call.reply, assessment, verdict)

    async def _call(
        self, sample: _Sample, started: Attempt, instance: Instance[Any], request: Request
    ) -> Call | None:
        """Return the call that answers a round, or None if its failure was recorded."""
        before = sample.before
        try:
            return await self.bound.call(request)
        except ReplyUnsaved as error:
            assessment = Assessment("error", None, {}, "The reply could not be saved.")
            if (
                sample.played is None
            ):  # otherwise it is not known yet whether the answer is the last
                assessment = await self._assess(instance, error.call.reply)
            self.record(self._answered(started, error.call, assessment), None, before)
            raise
        except FatalCallError:
            raise
        except Crashed as error:
            self.record(self._crash(started, instance, error), False, before)
        except CallError as error:
            if (refusal := self._refusal(error, request, started)) is not None:
                return refusal
            crashes = bool(error.exception) and self.bound.model.is_application
            failed = replace(
                started,
                ended_at=time.time(),
                error=f"{type(error).__name__}: {error}",
                partial=error.partial or UNSET,
                latency_s=error.latency_s if crashes else None,
                exception=error.exception or UNSET,
            )
            self.record(failed, None, before)
        return None

    async def _conversation(
        self, unfinished: UnfinishedSample, opening: Messages, earlier: Sequence[Attempt]
    ) -> tuple[Messages, Rewritings]:
        """Return the messages of a sample's next round, and the paraphrases made for them.

        Both are empty if the round cannot start yet because a score or verdict is missing.
        """
        instance = unfinished.instance
        if not earlier:
            origin = Origin(instance.id, unfinished.sample, 1)
            instruction = opening[-1]
            text, rewritings = await self._rewritten(
                instruction.content, "instruction", instance, origin
            )
            return (*opening[:-1], replace(instruction, content=text)), rewritings
        # The messages as sent: a second model may have paraphrased them.
        messages = convert(earlier[0].request["messages"], Messages)
        rewritings = ()
        answers: list[str] = []
        for place, attempt in enumerate(earlier):
            text = attempt.text or ""
            answers.append(text)
            turn = attempt.feedback
            if unfinished.turns > 1:
                turn = turn or user_turn(self.plan.task, instance, answers)
            if turn is None:  # fewer rounds were set then, or the run stopped before the feedback
                reply = Reply(text, attempt.finish_reason or "")
                assessment = await self._assess(instance, reply)
                if assessment.unscored:
                    return (), ()
                verdict = NO_VERDICT
                if self.judging is not None and self.plan.index is not None:
                    # Its judgements are found by the text as it was recorded.
                    recorded = self.plan.index.read_rounds(
                        instance.id, unfinished.sample, unfinished.round
                    )
                    verdict = self.judging.recorded(recorded[place])
                turn = await self._feedback(instance, reply, assessment, verdict)
                if turn is None:
                    return (), ()
                origin = Origin(instance.id, unfinished.sample, attempt.round)
                turn, more = await self._rewritten(turn, "feedback", instance, origin)
                rewritings = (*rewritings, *more)
            messages = extend_conversation(messages, text, turn, attempt.reasoning_state or None)
        return messages, rewritings

    async def _assess(self, instance: Instance[Any], reply: Reply) -> Assessment:
        if self.long_answers is None or len(reply.text) < LONG:
            return assess(self.plan.task, instance, reply)
        return await asyncio.to_thread(self.long_answers.assess, instance, reply)

    async def _feedback(
        self,
        instance: Instance[Any],
        reply: Reply,
        assessment: Assessment,
        verdict: AnswerVerdict,
    ) -> str | None:
        if self.long_answers is None or len(reply.text) < LONG:
            by_rules = feedback(self.plan.task, instance, reply, assessment)
        else:
            by_rules = await asyncio.to_thread(
                self.long_answers.feedback, instance, reply, assessment
            )
        run = self.plan.run
        if self.judging is None:
            return worded(run, by_rules, passed=assessment.passed)
        message = self.judging.feedback(by_rules, assessment, verdict)
        return None if message is None else worded(run, message, passed=verdict.passed)

    async def _rewritten(
        self,
        text: str,
        kind: Literal["instruction", "feedback"],
        instance: Instance[Any],
        origin: Origin,
    ) -> tuple[str, Rewritings]:
        if self.paraphraser is None:
            return text, ()
        rewritten, rewriting = await self.paraphraser.rewrite(text, kind, instance, origin)
        return rewritten, (rewriting,)

    def _refusal(self, error: CallError, request: Request, started: Attempt) -> Call | None:
        """Return a call that records a refused constraint, or None if there is none to record."""
        measures = overrides_method(self.plan.task, Task.score_of_refused_constraint)
        if not (measures and refuses_constraint(error, request)):
            return None
        reply = Reply(error.message, CONSTRAINT_REFUSED, Usage(), request.model)
        name = content_hash([started.request, started.instance, started.sample, started.round])
        return Call(name, reply, False, started.started_at, time.time())

    def _crash(self, started: Attempt, instance: Instance[Any], error: Crashed) -> Attempt:
        assessment = crashed(self.plan.task, instance, str(error))
        return replace(
            started,
            v=CRASH_VERSION,
            outcome=assessment.outcome,
            passed=assessment.passed,
            scores=assessment.scores,
            ended_at=time.time(),
            latency_s=error.latency_s,
            error=assessment.problem,
            exception=error.exception or UNSET,
        )

    def _answered(self, started: Attempt, call: Call, assessment: Assessment) -> Attempt:
        reply = call.reply
        decoding = started.request["decoding"]
        model = started.request["model"]
        goes_on = started.turns is not UNSET or self.plan.run.rounds.max > 1
        return replace(
            started,
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            outcome=assessment.outcome,
            passed=assessment.passed,
            scores=assessment.scores,
            call_id=call.id,
            usage=reply.usage,
            cost_usd=self.bound.model.cost(reply),
            latency_s=None if reply.batch else reply.latency_s,
            cached=call.cached,
            started_at=call.started_at,
            ended_at=call.ended_at,
            error=assessment.problem or None,
            reasoning_state=(goes_on and reply.reasoning_state) or UNSET,
            # Only if it is another model than requested
            answered_by=(model and reply.model != model and reply.model) or UNSET,
            without_logprobs=("logprobs" in decoding and reply.logprobs is None) or UNSET,
        )


@dataclass(slots=True)
class _Scoring:
    """Scores the answer to a round, and keeps the attempt and its verdict so far."""

    runner: SampleRunner
    started: Attempt
    call: Call
    attempt: Attempt | None = None
    verdict: AnswerVerdict = NO_VERDICT

    async def score(
        self, instance: Instance[Any], **fields: Any
    ) -> tuple[Assessment, AnswerVerdict]:
        """Assess an answer to an instance, and have it judged. ``fields`` are the attempt's."""
        judging = self.runner.judging
        assessment = await self.runner._assess(instance, self.call.reply)
        started = replace(self.started, **fields)
        self.attempt = attempt = self.runner._answered(started, self.call, assessment)
        if judging is None:
            self.verdict = AnswerVerdict(attempt.passed)
        else:
            self.verdict = AnswerVerdict(None, pending=True)
            self.verdict = await judging.judge(instance, attempt)
        return assessment, self.verdict

    def add(self, turn: str, rewritings: Rewritings) -> None:
        """Add the user's next turn, and how it was rewritten, to the attempt."""
        assert self.attempt is not None
        polish = (*self.attempt.polish, *rewritings)
        self.attempt = replace(self.attempt, feedback=turn, polish=polish)


def _as_recorded(request: Request, prompt: str) -> dict[str, Any]:
    record: dict[str, Any] = {
        "model": request.model,
        "decoding": request.decoding.specified_fields(),
        "seed": request.seed,
        "messages_hash": prompt,
    }
    if request.redraw:
        record["redraw"] = request.redraw
    if request.loglikelihoods:
        record["loglikelihoods"] = True
    if request.window:
        record["window"] = request.window
    if request.origin.round == 1:
        record["messages"] = request.messages
    else:  # they follow from those of round 1, the answers and the feedback
        record["follows"] = request.origin.round - 1
    return record
