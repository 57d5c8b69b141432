"""The rounds of a sample: build messages, call, assess, judge, write, then start the next round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import UNSET, UnsetType, convert
from msgspec.structs import replace

from harness.calls.calls import ReplyUnsaved
from harness.calls.signals import Stop, Stopping
from harness.engine.assessment import (
    AnswerVerdict,
    Assessment,
    assess,
    crashed,
    feedback,
    refuses_constraint,
)
from harness.engine.long_answers import LONG, LongAnswers
from harness.engine.next_turn import (
    AnsweredTurn,
    FeedbackTurns,
    ScriptedTurns,
    TurnStrategy,
    UserTurnMissing,
)
from harness.engine.plan import OwedSample, RunPlan
from harness.engine.progress import Verdicts
from harness.engine.reasoning import RecordedAnswers
from harness.engine.session import BoundModel
from harness.engine.turns import (
    Messages,
    as_of,
    continued,
    turn_verdicts,
    user_role,
    user_turn,
    verdict_on_all,
)
from harness.errors import CallError, Crashed, FatalCallError
from harness.ports import Task, overrides
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
    messages_hash,
)

if TYPE_CHECKING:
    from harness.engine.judging import Judging  # not imported for a run without judges

CALLED_A_TOOL = "The model called a tool, so the conversation cannot continue without its result."

Rewritings = tuple[Rewriting, ...]
NO_VERDICT = AnswerVerdict(None)


class Rewriter(Protocol):
    """Rewrites a run's instructions and feedback.

    A package declares, as ``polish`` of its `section_builders`, a function that returns one. It
    takes the run's task, the model that paraphrases, and the section's ``prompt``.
    """

    async def rewrite(
        self,
        text: str,
        kind: Literal["instruction", "feedback"],
        instance: Instance[Any],
        origin: Origin,
    ) -> tuple[str, Rewriting]:
        """Return the paraphrase, or else the original text, and a record of the call."""


@dataclass(slots=True)
class Samples:
    """Runs the rounds of unfinished samples, for all workers of a run."""

    plan: RunPlan
    bound: BoundModel
    # Writes and counts an attempt, given its verdict and the sample's verdicts before it.
    record: Callable[[Attempt, bool | None, Verdicts], None]
    stop: Stop  # once requested, no further round starts
    judging: Judging | None = None  # None: the rules alone decide
    paraphraser: Rewriter | None = None  # None: send the user's turns unchanged
    long_answers: LongAnswers | None = None  # None: score long answers in this process too
    user: Callable[[Instance[Any]], TurnStrategy] | None = None  # None: no model plays the user
    # Whether a round is asked for; if not, the sample is left as it is.
    accepts: Callable[[Request], Awaitable[bool]] | None = None

    async def work(self, owed: OwedSample) -> int:
        """Run a sample's missing rounds, and return how many were recorded.

        A call that fails for this sample alone is recorded as an attempt and ends the sample.

        `Stopping`, and any failure that affects more than this sample, is raised only after the
        replies received so far have been recorded.
        """
        instance, task, rounds = owed.instance, self.plan.task, self.plan.run.rounds
        opening, cluster = self.plan.opening(instance)
        done: list[Attempt] = []  # the sample's attempts before its first missing round
        if (index := self.plan.index) is not None:
            answers_before = RecordedAnswers(index, self.bound.model.reasoning)
            done = answers_before.rounds(instance.id, owed.sample, owed.round)
        messages, rewritings = await self._conversation(owed, opening, done)
        if not messages:
            return 0
        before, several = self.plan.verdicts(owed), owed.turns > 1
        strategy = self._strategy(owed)
        played = self._plays_user(instance)
        last, answers = max(owed.turns, rounds.max), [attempt.text or "" for attempt in done]
        verdicts = self.plan.turn_verdicts(owed) if several else []
        for number in range(owed.round, last + 1):
            if self.stop.requested:
                raise Stopping
            prompt = messages_hash(messages)
            asked = as_of(task, instance, answers)
            request = self.plan.request(owed._replace(instance=asked), number, messages, prompt)
            if self.accepts and not await self.accepts(request):
                return number - owed.round
            started = Attempt(
                v=SCHEMA_VERSION,
                instance=instance.id,
                sample=owed.sample,
                round=number,
                groups=instance.groups,
                cluster=cluster,
                request=_as_recorded(request, prompt),
                outcome="error",
                started_at=time.time(),
                ended_at=0.0,
                polish=rewritings,
                turns=number + 1 if played else owed.turns if several else UNSET,
            )
            call = await self._call(started, asked, request, before, assessable=not played)
            if call is None:
                break
            if number < last and call.reply.finish_reason in TOOL_CALLS:
                unanswerable = Assessment("error", None, {}, CALLED_A_TOOL)
                self.record(self._answered(started, call, unanswerable), None, before)
                break
            answers.append(call.reply.text)
            scoring = _Scoring(self, started, call)
            answer = AnsweredTurn(
                *(asked, messages, call.reply, request.origin, number == last, answers),
                score=scoring.score,
            )
            turn: str | None = None  # the user's next turn; without one, the sample ends
            try:
                turn = await strategy.next_turn(answer)
                if turn is not None:
                    turn, more = await self._rewritten(turn, "feedback", instance, request.origin)
                    scoring.add(turn, more)
            except UserTurnMissing as missing:
                failed = Assessment("error", None, {}, missing.problem)
                self.record(
                    self._answered(replace(started, **missing.fields), call, failed), None, before
                )
                break
            finally:  # The reply was paid for; the next session adds what is missing.
                if scoring.attempt is not None:
                    decided = scoring.verdict.passed
                    if several:
                        verdicts += turn_verdicts(scoring.attempt, scoring.verdict)
                        decided = verdict_on_all(verdicts) if turn is None else None
                    self.record(scoring.attempt, decided, before)
                    if self.judging is not None:
                        self.judging.record(scoring.verdict.new)
                    before = before._replace(latest=decided)
            if turn is None:
                break
            state = call.reply.reasoning_state
            messages, rewritings = continued(messages, call.reply.text, turn, state), ()
        return number - owed.round + 1

    def _strategy(self, owed: OwedSample) -> TurnStrategy:
        """Return how a sample's next turns are found."""
        if self.user is not None and self._plays_user(owed.instance):
            return self.user(owed.instance)
        if owed.turns > 1:
            return ScriptedTurns(self.plan.task, owed.instance)
        return FeedbackTurns(self._feedback, self.plan.run.rounds.stop_on_pass)

    def _plays_user(self, instance: Instance[Any]) -> bool:
        return self.user is not None and user_role(self.plan.task, instance) is not None

    async def _call(
        self,
        started: Attempt,
        asked: Instance[Any],
        request: Request,
        before: Verdicts,
        *,
        assessable: bool,
    ) -> Call | None:
        """Return the call that answers a round, or None if its failure was recorded.

        ``assessable`` is false if an answer cannot be scored before the user's next turn.
        """
        try:
            return await self.bound.call(request)
        except ReplyUnsaved as error:
            found = Assessment("error", None, {}, "The reply could not be saved.")
            if assessable:
                found = await self._assess(asked, error.call.reply)
            self.record(self._answered(started, error.call, found), None, before)
            raise
        except FatalCallError:
            raise
        except Crashed as error:
            self.record(self._crash(started, asked, error), False, before)
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
        self, owed: OwedSample, opening: Messages, done: Sequence[Attempt]
    ) -> tuple[Messages, Rewritings]:
        """Return the messages of a sample's next round, and the paraphrases made for them.

        Both are empty if the round cannot start yet because a score or verdict is missing.
        """
        instance = owed.instance
        if not done:
            origin = Origin(instance.id, owed.sample, 1)
            asked = opening[-1].content
            text, rewritings = await self._rewritten(asked, "instruction", instance, origin)
            return (*opening[:-1], replace(opening[-1], content=text)), rewritings
        # The messages as sent: a second model may have paraphrased them.
        messages = convert(done[0].request["messages"], Messages)
        rewritings = ()
        for number, attempt in enumerate(done, start=1):
            text, reason = attempt.text or "", attempt.finish_reason or ""
            reply = Reply(text, reason, reasoning_state=attempt.reasoning_state or None)
            turn = attempt.feedback
            if owed.turns > 1:
                answers = [one.text or "" for one in done[:number]]
                turn = turn or user_turn(self.plan.task, instance, answers)
            if turn is None:  # fewer rounds were set then, or the run stopped before the feedback
                found = await self._assess(instance, reply)
                if found.unscored:
                    return (), ()
                verdict = AnswerVerdict(None)
                if self.judging is not None and self.plan.index is not None:
                    # Its judgements are found by the text as it was recorded.
                    recorded = self.plan.index.rounds(instance.id, owed.sample, owed.round)
                    verdict = self.judging.recorded(recorded[number - 1])
                turn = await self._feedback(instance, reply, found, verdict)
                if turn is None:
                    return (), ()
                origin = Origin(instance.id, owed.sample, attempt.round)
                turn, more = await self._rewritten(turn, "feedback", instance, origin)
                rewritings = (*rewritings, *more)
            messages = continued(messages, text, turn, reply.reasoning_state)
        return messages, rewritings

    async def _assess(self, instance: Instance[Any], reply: Reply) -> Assessment:
        if self.long_answers is None or len(reply.text) < LONG:
            return assess(self.plan.task, instance, reply)
        return await asyncio.to_thread(self.long_answers.assess, instance, reply)

    async def _feedback(
        self, instance: Instance[Any], reply: Reply, found: Assessment, verdict: AnswerVerdict
    ) -> str | None:
        if self.long_answers is None or len(reply.text) < LONG:
            by_rules = feedback(self.plan.task, instance, reply, found)
        else:
            by_rules = await asyncio.to_thread(self.long_answers.feedback, instance, reply, found)
        return self.judging.feedback(by_rules, found, verdict) if self.judging else by_rules

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

    def _refusal(self, error: CallError, request: Request, begun: Attempt) -> Call | None:
        """Return a call that records a refused constraint, or None if there is none to record."""
        measures = overrides(self.plan.task, Task.score_of_refused_constraint)
        if not (measures and refuses_constraint(error, request)):
            return None
        reply = Reply(error.message, CONSTRAINT_REFUSED, Usage(), request.model)
        name = content_hash([begun.request, begun.instance, begun.sample, begun.round])
        return Call(name, reply, False, begun.started_at, time.time())

    def _crash(self, begun: Attempt, instance: Instance[Any], error: Crashed) -> Attempt:
        found = crashed(self.plan.task, instance, str(error))
        return replace(
            begun,
            v=CRASH_VERSION,
            outcome=found.outcome,
            passed=found.passed,
            scores=found.scores,
            ended_at=time.time(),
            latency_s=error.latency_s,
            error=found.problem,
            exception=error.exception or UNSET,
        )

    def _answered(self, begun: Attempt, call: Call, found: Assessment) -> Attempt:
        reply = call.reply
        sent = begun.request["decoding"]
        several = begun.turns is not UNSET or self.plan.run.rounds.max > 1
        return replace(
            begun,
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            outcome=found.outcome,
            passed=found.passed,
            scores=found.scores,
            call_id=call.id,
            usage=reply.usage,
            cost_usd=self.bound.model.cost(reply),
            latency_s=None if reply.batch else reply.latency_s,
            cached=call.cached,
            started_at=call.started_at,
            ended_at=call.ended_at,
            error=found.problem or None,
            reasoning_state=(several and reply.reasoning_state) or UNSET,
            answered_by=_answered_by(begun.request["model"], reply),
            without_logprobs=("logprobs" in sent and reply.logprobs is None) or UNSET,
        )


@dataclass(slots=True)
class _Scoring:
    """Scores the answer to a round, and keeps the attempt and its verdict so far."""

    samples: Samples
    started: Attempt
    call: Call
    attempt: Attempt | None = None
    verdict: AnswerVerdict = NO_VERDICT

    async def score(self, asked: Instance[Any], **fields: Any) -> tuple[Assessment, AnswerVerdict]:
        """Assess an answer to ``asked``, and have it judged. ``fields`` are the attempt's."""
        judging = self.samples.judging
        assessment = await self.samples._assess(asked, self.call.reply)
        started = replace(self.started, **fields)
        self.attempt = attempt = self.samples._answered(started, self.call, assessment)
        if judging is None:
            self.verdict = AnswerVerdict(attempt.passed)
        else:
            self.verdict = AnswerVerdict(None, pending=True)
            self.verdict = await judging.judge(asked, attempt)
        return assessment, self.verdict

    def add(self, turn: str, rewritings: Rewritings) -> None:
        """Add the user's next turn, and how it was rewritten, to the attempt."""
        assert self.attempt is not None
        polish = (*self.attempt.polish, *rewritings)
        self.attempt = replace(self.attempt, feedback=turn, polish=polish)


def _answered_by(requested: str, reply: Reply) -> str | UnsetType:
    """Return the model that answered, if it is another one than requested."""
    if not requested or not reply.model or reply.model == requested:
        return UNSET
    return reply.model


def _as_recorded(request: Request, prompt: str) -> dict[str, Any]:
    number = request.origin.round
    kept: dict[str, Any] = {
        "model": request.model,
        "decoding": request.decoding.given(),
        "seed": request.seed,
        "messages_hash": prompt,
    }
    if request.redraw:
        kept["redraw"] = request.redraw
    if request.loglikelihoods:
        kept["loglikelihoods"] = True
    if request.window:
        kept["window"] = request.window
    # Later rounds' messages follow from those of round 1, the answers and the feedback.
    return kept | ({"messages": request.messages} if number == 1 else {"follows": number - 1})
