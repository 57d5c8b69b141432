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
    LONG_ANSWER_CHARS,
    UNANSWERED,
    AnswerVerdict,
    Assessment,
    LongAnswerAssessor,
    apply_feedback_template,
    assess,
    assess_crash,
    feedback,
    is_constraint_refusal,
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
    conversation_verdict,
    instance_at_turn,
    scripted_turn,
    turn_verdicts,
    user_role,
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
    verdicts: Verdicts  # on the first and latest rounds so far
    turn_verdicts: list[bool | None]  # of a conversation
    user_turns: UserTurns | None  # None: no model plays the user
    last_round: int


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
    long_answers: LongAnswerAssessor | None = None  # None: score long answers in this process too
    user: Callable[[Instance[Any]], UserTurns] | None = None  # None: no model plays the user
    # Returns whether to run a round; if not, the sample stays unfinished.
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
        n_rounds = 0
        for round_ in range(unfinished.round, sample.last_round + 1):
            if self.stop.requested:
                raise Stopping
            instance = instance_at_turn(self.plan.task, unfinished.instance, sample.answers)
            digest = messages_hash(sample.messages)
            if self.accepts and self.plan.has_following(unfinished, round_, digest):
                break
            request = self.plan.request(
                unfinished._replace(instance=instance), round_, sample.messages, digest
            )
            if self.accepts and not await self.accepts(request):
                break
            attempt = self._start_attempt(sample, _request_record(request, digest), round_)
            has_next = await self._run_round(sample, attempt, instance, request)
            n_rounds += 1
            if not has_next or unfinished.is_replaced:
                break
        return n_rounds

    async def _begin(self, unfinished: UnfinishedSample) -> _Sample:
        """Return a sample with its conversation before the first missing round."""
        instance = unfinished.instance
        opening, cluster = self.plan.opening(instance)
        earlier: list[Attempt] = []
        if (index := self.plan.index) is not None:
            recorded = RecordedAnswers(index, self.bound.model.reasoning)
            earlier = recorded.rounds(instance.id, unfinished.sample, unfinished.round)
        if earlier:
            messages, rewritings = await self._continue_conversation(unfinished, earlier)
        else:
            messages, rewritings = await self._open_conversation(unfinished, opening)
        user_turns: UserTurns | None = None
        if self.user is not None and user_role(self.plan.task, instance) is not None:
            user_turns = self.user(instance)
        return _Sample(
            unfinished,
            cluster,
            messages,
            rewritings,
            answers=[attempt.text or "" for attempt in earlier],
            verdicts=self.plan.verdicts(unfinished),
            turn_verdicts=self.plan.turn_verdicts(unfinished) if unfinished.turns > 1 else [],
            user_turns=user_turns,
            last_round=max(unfinished.turns, self.plan.run.rounds.max),
        )

    def _start_attempt(self, sample: _Sample, request: dict[str, Any], round_: int) -> Attempt:
        """Return the attempt of a round before its call."""
        unfinished = sample.unfinished
        turns: int | UnsetType = UNSET
        if sample.user_turns is not None:
            turns = round_ + 1
        elif unfinished.turns > 1:
            turns = unfinished.turns
        return Attempt(
            v=SCHEMA_VERSION,
            instance=unfinished.instance.id,
            sample=unfinished.sample,
            round=round_,
            groups=unfinished.instance.groups,
            cluster=sample.cluster,
            request=request,
            outcome="error",
            started_at=time.time(),
            ended_at=0.0,
            polish=sample.rewritings,
            turns=turns,
        )

    async def _run_round(
        self, sample: _Sample, started: Attempt, instance: Instance[Any], request: Request
    ) -> bool:
        """Run a round of a sample, record its attempt, and return whether another one follows.

        Args:
            sample: The sample, to which the answer and the user's next turn are added.
            started: The attempt before its call.
            instance: The instance of the round's turn.
            request: The round's request.
        """
        call = await self._call(sample, started, instance, request)
        if call is None:
            return False
        reply = call.reply
        if started.round < sample.last_round and reply.finish_reason in TOOL_CALLS:
            unanswerable = Assessment("error", None, {}, CALLED_A_TOOL)
            attempt = self._answered_attempt(started, call, unanswerable)
            self.record(attempt, None, sample.verdicts)
            return False
        sample.answers.append(reply.text)
        scoring = _Scoring(self, started, call)
        next_turn: str | None = None  # the user's; without one, the sample ends
        try:
            next_turn = await self._score_and_reply(sample, scoring, instance, request.origin)
        except UserTurnMissing as missing:
            unscored = Assessment("error", None, {}, missing.problem)
            started = replace(started, **missing.fields)
            self.record(self._answered_attempt(started, call, unscored), None, sample.verdicts)
        finally:  # The reply was paid for; the next session adds what is missing.
            if scoring.attempt is not None:
                self._record_scored(sample, scoring, is_last=next_turn is None)
        if next_turn is None:
            return False
        sample.messages = extend_conversation(
            sample.messages, reply.text, next_turn, reply.reasoning_state
        )
        sample.rewritings = ()
        return True

    async def _score_and_reply(
        self, sample: _Sample, scoring: _Scoring, instance: Instance[Any], origin: Origin
    ) -> str | None:
        """Score an answer, and return the user's next turn, or None to end the sample."""
        if sample.user_turns is None:
            turn = await self._next_turn(sample, scoring, instance)
        else:
            answer = AnsweredTurn(
                instance,
                sample.messages,
                scoring.call.reply,
                origin,
                last=scoring.started.round == sample.last_round,
                answers=sample.answers,
                score=scoring.score,
            )
            turn = await sample.user_turns.next_turn(answer)
        if turn is None:
            return None
        turn, rewritings = await self._rewrite(turn, "feedback", sample.unfinished.instance, origin)
        scoring.add_turn(turn, rewritings)
        return turn

    def _record_scored(self, sample: _Sample, scoring: _Scoring, *, is_last: bool) -> None:
        """Record a scored attempt, which may be the sample's last, and its new judgements."""
        assert scoring.attempt is not None
        passed = scoring.verdict.passed
        if sample.unfinished.turns > 1:
            sample.turn_verdicts += turn_verdicts(scoring.attempt, scoring.verdict)
            passed = conversation_verdict(sample.turn_verdicts) if is_last else None
        self.record(scoring.attempt, passed, sample.verdicts)
        if self.judging is not None:
            self.judging.record(scoring.verdict.new)
        sample.verdicts = sample.verdicts._replace(latest=passed)

    async def _next_turn(
        self, sample: _Sample, scoring: _Scoring, instance: Instance[Any]
    ) -> str | None:
        """Score an answer, and return the user's scripted turn or feedback, or None to end.

        With ``stop_on_pass``, an answer that passes gets no feedback.
        """
        assessment, verdict = await scoring.score(instance)
        if scoring.started.round == sample.last_round:
            return None
        if sample.unfinished.turns > 1:
            if assessment.outcome in UNANSWERED:
                return None
            return scripted_turn(self.plan.task, sample.unfinished.instance, sample.answers)
        is_done = verdict.passed is True and self.plan.run.rounds.stop_on_pass
        if is_done or assessment.is_unscored:
            return None
        return await self._feedback(instance, scoring.call.reply, assessment, verdict)

    async def _call(
        self, sample: _Sample, started: Attempt, instance: Instance[Any], request: Request
    ) -> Call | None:
        """Make the call of a round, or return None if its failure was recorded."""
        try:
            return await self.bound.call(request)
        except ReplyUnsaved as error:
            assessment = Assessment("error", None, {}, "The reply could not be saved.")
            # With a played user, it is not known yet whether the answer is the last.
            if sample.user_turns is None:
                assessment = await self._assess(instance, error.call.reply)
            attempt = self._answered_attempt(started, error.call, assessment)
            self.record(attempt, None, sample.verdicts)
            raise
        except FatalCallError:
            raise
        except Crashed as error:
            self.record(self._crashed_attempt(started, instance, error), False, sample.verdicts)
        except CallError as error:
            refused_call = self._refused_constraint_call(error, request, started)
            if refused_call is not None:
                return refused_call
            self.record(self._failed_attempt(started, error), None, sample.verdicts)
        return None

    async def _open_conversation(
        self, unfinished: UnfinishedSample, opening: Messages
    ) -> tuple[Messages, Rewritings]:
        """Return the messages of a sample's round 1, and the paraphrases made for them."""
        origin = Origin(unfinished.instance.id, unfinished.sample, 1)
        instruction = opening[-1]
        text, rewritings = await self._rewrite(
            instruction.content, "instruction", unfinished.instance, origin
        )
        return (*opening[:-1], replace(instruction, content=text)), rewritings

    async def _continue_conversation(
        self, unfinished: UnfinishedSample, earlier: Sequence[Attempt]
    ) -> tuple[Messages, Rewritings]:
        """Return the messages of a sample's next round, and the paraphrases made for them.

        Both are empty if the round cannot start yet because a score or verdict is missing.
        """
        instance = unfinished.instance
        # The messages as sent: a second model may have paraphrased them.
        messages = convert(earlier[0].request["messages"], Messages)
        rewritings: Rewritings = ()
        answers: list[str] = []
        for attempt in earlier:
            text = attempt.text or ""
            answers.append(text)
            turn = attempt.feedback
            if unfinished.turns > 1:
                turn = turn or scripted_turn(self.plan.task, instance, answers)
            if turn is None:  # fewer rounds were set then, or the run stopped before the feedback
                turn = await self._missing_feedback(unfinished, attempt)
                if turn is None:
                    return (), ()
                origin = Origin(instance.id, unfinished.sample, attempt.round)
                turn, more_rewritings = await self._rewrite(turn, "feedback", instance, origin)
                rewritings = (*rewritings, *more_rewritings)
            messages = extend_conversation(messages, text, turn, attempt.reasoning_state or None)
        return messages, rewritings

    async def _missing_feedback(self, unfinished: UnfinishedSample, attempt: Attempt) -> str | None:
        """Return the feedback on a recorded attempt, or None if a score or verdict is missing."""
        instance = unfinished.instance
        reply = Reply(attempt.text or "", attempt.finish_reason or "")
        assessment = await self._assess(instance, reply)
        if assessment.is_unscored:
            return None
        verdict = NO_VERDICT
        if self.judging is not None and self.plan.index is not None:
            # Its judgements are found by the text as it was recorded.
            attempts = self.plan.index.read_rounds(instance.id, unfinished.sample, unfinished.round)
            by_round = {recorded.round: recorded for recorded in attempts}
            verdict = self.judging.recorded_verdict(by_round[attempt.round])
        return await self._feedback(instance, reply, assessment, verdict)

    async def _assess(self, instance: Instance[Any], reply: Reply) -> Assessment:
        if self.long_answers is None or len(reply.text) < LONG_ANSWER_CHARS:
            return assess(self.plan.task, instance, reply)
        return await asyncio.to_thread(self.long_answers.assess, instance, reply)

    async def _feedback(
        self,
        instance: Instance[Any],
        reply: Reply,
        assessment: Assessment,
        verdict: AnswerVerdict,
    ) -> str | None:
        if self.long_answers is None or len(reply.text) < LONG_ANSWER_CHARS:
            by_rules = feedback(self.plan.task, instance, reply, assessment)
        else:
            by_rules = await asyncio.to_thread(
                self.long_answers.feedback, instance, reply, assessment
            )
        run = self.plan.run
        if self.judging is None:
            return apply_feedback_template(run, by_rules, passed=assessment.passed)
        message = self.judging.feedback(by_rules, assessment, verdict)
        return (
            None
            if message is None
            else apply_feedback_template(run, message, passed=verdict.passed)
        )

    async def _rewrite(
        self,
        text: str,
        kind: Literal["instruction", "feedback"],
        instance: Instance[Any],
        origin: Origin,
    ) -> tuple[str, Rewritings]:
        if self.paraphraser is None:
            return text, ()
        paraphrase, rewriting = await self.paraphraser.rewrite(text, kind, instance, origin)
        return paraphrase, (rewriting,)

    def _refused_constraint_call(
        self, error: CallError, request: Request, started: Attempt
    ) -> Call | None:
        """Return a call that records a refused decoding constraint, or None if none was refused.

        Only tasks that score such refusals record them.
        """
        is_scored = overrides_method(self.plan.task, Task.score_of_refused_constraint)
        if not (is_scored and is_constraint_refusal(error, request)):
            return None
        reply = Reply(error.message, CONSTRAINT_REFUSED, Usage(), request.model)
        call_id = content_hash([started.request, started.instance, started.sample, started.round])
        return Call(call_id, reply, False, started.started_at, time.time())

    def _failed_attempt(self, started: Attempt, error: CallError) -> Attempt:
        has_crashed = bool(error.exception) and self.bound.model.is_application
        return replace(
            started,
            ended_at=time.time(),
            error=f"{type(error).__name__}: {error}",
            partial=error.partial or UNSET,
            latency_s=error.latency_s if has_crashed else None,
            exception=error.exception or UNSET,
        )

    def _crashed_attempt(
        self, started: Attempt, instance: Instance[Any], error: Crashed
    ) -> Attempt:
        assessment = assess_crash(self.plan.task, instance, str(error))
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

    def _answered_attempt(self, started: Attempt, call: Call, assessment: Assessment) -> Attempt:
        reply = call.reply
        decoding = started.request["decoding"]
        model = started.request["model"]
        may_continue = started.turns is not UNSET or self.plan.run.rounds.max > 1
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
            reasoning_state=(may_continue and reply.reasoning_state) or UNSET,
            # Only if it is another model than requested
            answered_by=(model and reply.model != model and reply.model) or UNSET,
            without_logprobs=("logprobs" in decoding and reply.logprobs is None) or UNSET,
        )


@dataclass(slots=True)
class _Scoring:
    """Scores the answer to a round. Stores the attempt and its verdict."""

    runner: SampleRunner
    started: Attempt
    call: Call
    attempt: Attempt | None = None
    verdict: AnswerVerdict = NO_VERDICT

    async def score(
        self, instance: Instance[Any], **fields: Any
    ) -> tuple[Assessment, AnswerVerdict]:
        """Assess and judge the answer.

        Args:
            instance: The instance of the answered turn.
            fields: Fields of the attempt to set.
        """
        judging = self.runner.judging
        assessment = await self.runner._assess(instance, self.call.reply)
        started = replace(self.started, **fields)
        self.attempt = attempt = self.runner._answered_attempt(started, self.call, assessment)
        if judging is None:
            self.verdict = AnswerVerdict(attempt.passed)
        else:
            self.verdict = AnswerVerdict(None, pending=True)
            self.verdict = await judging.judge(instance, attempt)
        return assessment, self.verdict

    def add_turn(self, turn: str, rewritings: Rewritings) -> None:
        """Add the user's next turn, and its paraphrases, to the attempt."""
        assert self.attempt is not None
        polish = (*self.attempt.polish, *rewritings)
        self.attempt = replace(self.attempt, feedback=turn, polish=polish)


def _request_record(request: Request, digest: str) -> dict[str, Any]:
    """Return what an attempt records of a request. ``digest`` is the messages' hash."""
    record: dict[str, Any] = {
        "model": request.model,
        "decoding": request.decoding.specified_fields(),
        "seed": request.seed,
        "messages_hash": digest,
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
