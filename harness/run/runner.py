"""Workers that pull one stream of owed samples, each from its next round to its last.

A failure that belongs to one call becomes data. Anything else stops the run:
no new work is taken, what is in flight is finished and written, and the first
error is raised. Nothing that was paid for is dropped on the way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import convert
from msgspec.structs import replace

from harness.calls.calls import Calls, ReplyUnsaved
from harness.calls.signals import Stop, Stopping
from harness.errors import CallError, FatalCallError
from harness.ports import Paraphrasable
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
from harness.run.assessment import Assessment, assess, feedback
from harness.run.plan import OwedSample, Plan
from harness.run.polish import Polisher
from harness.run.tally import Tally
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter

if TYPE_CHECKING:
    from harness.run.judging import Judging  # a run without judges spares the import


class Turn(NamedTuple):
    """What is about to be asked: shared by the attempt's line, however the call ends.

    cluster: see `harness.records.Attempt`.
    prompt: hash of the request's messages.
    polish: of the request's texts, since the attempt before.
    """

    instance: Instance[Any]
    cluster: str
    prompt: str
    request: Request
    polish: tuple[Rewriting, ...] = ()

    def attempt(self) -> partial[Attempt]:
        """The attempt, but for how the call ends."""
        return partial(
            Attempt,
            v=SCHEMA_VERSION,
            instance=self.instance.id,
            sample=self.request.sample,
            round=self.request.origin.round,
            groups=self.instance.groups,
            cluster=self.cluster,
            request=self._recorded(),
            polish=self.polish,
        )

    def _recorded(self) -> dict[str, Any]:
        """What the line keeps of the request.

        A later round's messages are the first round's, and then the text and
        feedback of each line between: they are not written again.
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
        if number == 1:
            kept["messages"] = request.messages
        else:
            kept["follows"] = number - 1
        return kept


class Runner:
    """Works a plan off.

    cost: what a call cost in US dollars, None where that is not known.
    polish: rewrites instruction and feedback by a second model; None for none.
    judging: puts every answer before the run's judges; None where it has none.
    """

    def __init__(
        self,
        plan: Plan,
        calls: Calls,
        *,
        ledger: AttemptIndex,
        writer: JsonLinesWriter,
        tally: Tally,
        stop: Stop,
        cost: Callable[[Call], float | None],
        polish: Polisher | None = None,
        judging: Judging | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._calls = calls
        self._ledger = ledger
        self._writer = writer
        self._tally = tally
        self._stop = stop
        self._cost = cost
        self._polish = polish
        self._judging = judging
        self._clock = clock
        self._error: BaseException | None = None

    async def run(self, workers: int) -> None:
        """Work until nothing is owed or the run is stopped.

        Raises: the first error that did not belong to one call.
        """
        owed = self._plan.owed(self._ledger)
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work(owed))
        if self._error is not None:
            raise self._error

    async def _work(self, owed: Iterator[OwedSample]) -> None:
        try:
            while not self._stop.requested and (work := next(owed, None)) is not None:
                self._tally.finish_sample(await self._sample(work))
                # A call that is cached or free never waits: signals, the display and
                # the other workers must have their turn all the same.
                await asyncio.sleep(0)
        except Stopping:
            return
        except Exception as error:
            self._error = self._error or error
            self._stop.request()

    async def _sample(self, work: OwedSample) -> bool | None:
        """Do a sample's owed rounds, one after the other; whether the last one passed."""
        instance, sample, first, redraw = work
        messages, cluster = self._plan.opening(instance)
        done_rounds = self._ledger.rounds(instance.id, sample, before=first)
        polished: list[Rewriting] = []
        if done_rounds:  # what was sent, which a second model may have polished
            messages = convert(done_rounds[0].request["messages"], tuple[Message, ...])
        else:
            said, polished = await self._polished(messages[-1].content, "instruction", work, 1)
            messages = (*messages[:-1], Message("user", said))
        for done in done_rounds:
            reply = Reply(done.text or "", done.finish_reason or "")
            if done.feedback is not None:
                said = done.feedback
            else:  # the run had fewer rounds then, or ended before the polishing
                assessment = assess(self._plan.task, instance, reply)
                said = feedback(self._plan.task, instance, reply, assessment)
                if self._judging is not None and self._judging.decides:
                    judged = self._judging.recorded(done)
                    if self._judging.waiting(done, judged):
                        return None
                    told = self._judging.feedback(
                        said, assessment.passed, assessment.scores, judged
                    )
                    if told is None:
                        return None
                    said = told
                said, rewriting = await self._polished(said, "feedback", work, done.round)
                polished += rewriting
            messages = _continued(messages, reply, said)
        rounds = self._plan.run.rounds
        for number in range(first, rounds.max + 1):
            if self._stop.requested:
                raise Stopping
            prompt = messages_hash(messages)
            again = redraw if number == first else 0  # later rounds follow another answer
            request = self._plan.request(instance, sample, number, messages, prompt, again)
            turn = Turn(instance, cluster, prompt, request, tuple(polished))
            polished = []
            started = self._clock()
            try:
                call = await self._calls(request)
            except ReplyUnsaved as error:
                self._record(self._scored(turn, error.call, last=True))
                raise
            except FatalCallError:
                raise
            except CallError as error:
                self._write_failure(turn, error, started)
                return None
            attempt = self._scored(turn, call, last=number == rounds.max)
            if self._judging is None:
                attempt = await self._with_polished_feedback(attempt, work)
                passed = attempt.passed
            else:
                attempt, passed = await self._judged(self._judging, attempt, work)
            if attempt.feedback is None:
                break
            messages = _continued(messages, call.reply, attempt.feedback)
        return passed

    async def _judged(
        self, judging: Judging, attempt: Attempt, work: OwedSample
    ) -> tuple[Attempt, bool | None]:
        """Write an attempt and have it judged; the attempt, and whether it passed by both.

        The attempt's line is written first, but where its feedback waits for the judges.
        """
        instance = work.instance
        if attempt.feedback is None or not judging.decides:
            attempt = await self._with_polished_feedback(attempt, work)
            said = await judging.judge(instance, attempt)
            judging.record(said)
            return attempt, judging.verdict(attempt.passed, attempt.scores, said)
        try:
            said = await judging.judge(instance, attempt)
        except BaseException:  # the reply was paid for; the next session has it judged
            self._record(replace(attempt, feedback=None))
            raise
        passed = judging.verdict(attempt.passed, attempt.scores, said)
        told: str | None = None
        stops = passed is True and self._plan.run.rounds.stop_on_pass
        if not stops and not judging.waiting(attempt, said):
            told = judging.feedback(attempt.feedback, attempt.passed, attempt.scores, said)
        try:
            attempt = await self._with_polished_feedback(replace(attempt, feedback=told), work)
        finally:
            judging.record(said)
        return attempt, passed

    def _scored(self, turn: Turn, call: Call, *, last: bool) -> Attempt:
        """The attempt of a reply; with feedback where a round follows."""
        task, instance, reply = self._plan.task, turn.instance, call.reply
        found: Assessment = assess(task, instance, reply)
        by_rules = self._judging is None or not self._judging.decides
        stops = found.passed is True and self._plan.run.rounds.stop_on_pass
        ends = last or (stops and by_rules)
        return turn.attempt()(
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            outcome=found.outcome,
            passed=found.passed,
            scores=found.scores,
            feedback=None if ends else feedback(task, instance, reply, found),
            call_id=call.id,
            usage=reply.usage,
            cost_usd=self._cost(call),
            latency_s=reply.latency_s,
            cached=call.cached,
            started_at=call.started_at,
            ended_at=call.ended_at,
            error=found.problem or None,
        )

    async def _with_polished_feedback(self, attempt: Attempt, work: OwedSample) -> Attempt:
        """Polish an attempt's feedback where that is wanted, and write the attempt."""
        try:
            if attempt.feedback is not None:
                said, more = await self._polished(attempt.feedback, "feedback", work, attempt.round)
                attempt = replace(attempt, feedback=said, polish=(*attempt.polish, *more))
        except BaseException:  # the reply was paid for; the next session polishes it
            self._record(replace(attempt, feedback=None))
            raise
        self._record(attempt)
        return attempt

    async def _polished(
        self, text: str, of: Literal["instruction", "feedback"], work: OwedSample, number: int
    ) -> tuple[str, list[Rewriting]]:
        """A text by the second model, with the record of its call; as it is where there is none."""
        if self._polish is None:
            return text, []
        task = self._plan.task
        assert isinstance(task, Paraphrasable), "refused before any work"
        origin = Origin(work.instance.id, work.sample, number)
        said, rewriting = await self._polish(text, task.must_keep(work.instance), of, origin)
        return said, [rewriting]

    def _write_failure(self, turn: Turn, error: CallError, started: float) -> None:
        self._record(
            turn.attempt()(
                outcome="error",
                started_at=started,
                ended_at=self._clock(),
                error=f"{type(error).__name__}: {error}",
            )
        )

    def _record(self, attempt: Attempt) -> None:
        self._writer.append(attempt)
        self._tally.record(attempt)


def _continued(messages: tuple[Message, ...], reply: Reply, said: str) -> tuple[Message, ...]:
    """The conversation with an answer and what was said of it.

    An empty answer is no turn: some providers refuse one.
    """
    if not reply.text.strip():
        return (*messages, Message("user", said))
    return (*messages, Message("assistant", reply.text), Message("user", said))
