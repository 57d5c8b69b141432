"""The rounds of one sample: messages → call → assess → judge → write → next round."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import convert
from msgspec.structs import replace

from harness.calls.calls import ReplyUnsaved
from harness.calls.signals import Stop, Stopping
from harness.errors import CallError, FatalCallError
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Call,
    Instance,
    Message,
    Origin,
    Reply,
    Request,
    Rewriting,
    messages_hash,
)
from harness.run.assessment import AnswerVerdict, Assessment, NoJudges, assess, feedback
from harness.run.paraphrase import Paraphrase, verbatim
from harness.run.plan import OwedSample, RunPlan
from harness.run.session import BoundModel

if TYPE_CHECKING:
    from harness.run.judging import Judging  # a run without judges spares the import


class Conversation(NamedTuple):
    """The messages so far, and the paraphrases made of them since the last attempt's line."""

    messages: tuple[Message, ...]
    rewritings: tuple[Rewriting, ...] = ()

    def followed_by(
        self, reply: Reply, said: str, rewritings: tuple[Rewriting, ...] = ()
    ) -> Conversation:
        """Return the conversation with an answer and the user's next turn added.

        An empty answer is not added: some providers refuse empty turns.
        """
        user = Message("user", said)
        answer = (Message("assistant", reply.text),) if reply.text.strip() else ()
        return Conversation((*self.messages, *answer, user), rewritings)


class RoundRequest(NamedTuple):
    """A request, with the facts of its attempt's line that do not depend on how the call ends."""

    instance: Instance[Any]
    cluster: str
    prompt: str
    request: Request
    rewritings: tuple[Rewriting, ...]

    def attempt(self, **outcome: Any) -> Attempt:
        """Return the attempt, given how the call ended."""
        return Attempt(
            v=SCHEMA_VERSION,
            instance=self.instance.id,
            sample=self.request.sample,
            round=self.request.origin.round,
            groups=self.instance.groups,
            cluster=self.cluster,
            request=self._recorded(),
            polish=self.rewritings,
            **outcome,
        )

    def _recorded(self) -> dict[str, Any]:
        """Return what the line records of the request.

        A later round's messages are the first round's, followed by the text and feedback of each
        line in
        between: they are not written again.
        """
        request, number = self.request, self.request.origin.round
        kept: dict[str, Any] = {
            "model": request.model,
            "decoding": request.decoding.given(),
            "seed": request.seed,
            "messages_hash": self.prompt,
        }
        if request.redraw:
            kept["redraw"] = request.redraw
        return kept | ({"messages": request.messages} if number == 1 else {"follows": number - 1})


@dataclass(frozen=True, slots=True)
class Samples:
    """Works on samples of a plan.

    Attributes:
        model: The evaluated model.
        record: Writes an attempt's line, and counts it.
        stop: Once it is requested, no further round begins.
        judges: Judges every answer.
        paraphrase: Rewrites the user's turns.
        clock: Seconds since the epoch.
    """

    plan: RunPlan
    model: BoundModel
    record: Callable[[Attempt], None]
    stop: Stop
    judges: NoJudges | Judging = field(default_factory=NoJudges)
    paraphrase: Paraphrase = verbatim
    clock: Callable[[], float] = time.time

    async def work(self, owed: OwedSample) -> bool | None:
        """Do a sample's owed rounds, one after the other.

        A call that fails is recorded as an attempt and ends the sample.

        Returns:
            Whether the last round passed; None without a verdict.

        Raises:
            Stopping: The session ends before the sample does.
            Exception: A failure that does not belong to this sample alone; its replies are written.
        """
        task, instance, rounds = self.plan.task, owed.instance, self.plan.run.rounds
        opening = self.plan.opening(instance)
        conversation = await self._conversation(owed, opening.messages)
        if conversation is None:
            return None
        verdict = AnswerVerdict(None)
        for number in range(owed.round, rounds.max + 1):
            if self.stop.requested:
                raise Stopping
            messages, rewritings = conversation
            prompt = messages_hash(messages)
            request = self.plan.request(owed, number, messages, prompt)
            turn = RoundRequest(instance, opening.cluster, prompt, request, rewritings)
            call = await self._call(turn)
            if call is None:
                return None
            found = assess(task, instance, call.reply)
            attempt = self._attempt(turn, call, found)
            said: str | None = None
            verdict = AnswerVerdict(None)
            try:
                verdict = await self.judges.judge(instance, attempt)
                done = number == rounds.max or (verdict.passed is True and rounds.stop_on_pass)
                if not done:
                    by_rules = feedback(task, instance, call.reply, found)
                    said = self.judges.feedback(by_rules, found, verdict)
                if said is not None:
                    said, more = await self.paraphrase(said, "feedback", instance, request.origin)
                    attempt = replace(attempt, feedback=said, polish=(*attempt.polish, *more))
            finally:  # The reply was paid for. What is missing, the next session makes up for.
                self.record(attempt)
                self.judges.record(verdict)
            if said is None:
                break
            conversation = conversation.followed_by(call.reply, said)
        return verdict.passed

    async def _conversation(
        self, owed: OwedSample, opening: tuple[Message, ...]
    ) -> Conversation | None:
        """Return the conversation up to the first owed round.

        None if it cannot be continued yet, because a judge has not said what was wrong.
        """
        task, instance = self.plan.task, owed.instance
        done = self.plan.index.rounds(instance.id, owed.sample, before=owed.round)
        if not done:
            origin = Origin(instance.id, owed.sample, 1)
            text, more = await self.paraphrase(opening[-1].content, "instruction", instance, origin)
            return Conversation((*opening[:-1], Message("user", text)), more)
        # What was sent, which a second model may have paraphrased.
        conversation = Conversation(convert(done[0].request["messages"], tuple[Message, ...]))
        for attempt in done:
            reply = Reply(attempt.text or "", attempt.finish_reason or "")
            said, rewritings = attempt.feedback, conversation.rewritings
            if said is None:  # the run had fewer rounds then, or was stopped before the feedback
                found = assess(task, instance, reply)
                by_rules = feedback(task, instance, reply, found)
                said = self.judges.feedback(by_rules, found, self.judges.recorded(attempt))
                if said is None:
                    return None
                origin = Origin(instance.id, owed.sample, attempt.round)
                said, more = await self.paraphrase(said, "feedback", instance, origin)
                rewritings = (*rewritings, *more)
            conversation = conversation.followed_by(reply, said, rewritings)
        return conversation

    async def _call(self, turn: RoundRequest) -> Call | None:
        """Make a round's call; None if it failed, which is recorded."""
        started = self.clock()
        try:
            return await self.model.call(turn.request)
        except ReplyUnsaved as error:
            found = assess(self.plan.task, turn.instance, error.call.reply)
            self.record(self._attempt(turn, error.call, found))
            raise
        except FatalCallError:
            raise
        except CallError as error:
            self.record(
                turn.attempt(
                    outcome="error",
                    started_at=started,
                    ended_at=self.clock(),
                    error=f"{type(error).__name__}: {error}",
                )
            )
            return None

    def _attempt(self, turn: RoundRequest, call: Call, found: Assessment) -> Attempt:
        reply = call.reply
        return turn.attempt(
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            outcome=found.outcome,
            passed=found.passed,
            scores=found.scores,
            call_id=call.id,
            usage=reply.usage,
            cost_usd=self.model.cost(call),
            latency_s=reply.latency_s,
            cached=call.cached,
            started_at=call.started_at,
            ended_at=call.ended_at,
            error=found.problem or None,
        )
