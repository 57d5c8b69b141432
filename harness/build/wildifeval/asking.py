"""Asking models what a stage wants to know: each question through the call stack, and written down.

A stage's answers stand in ``STAGE.calls.jsonl``, one line for each, under the key of the call
(`harness.middleware.key`): model, messages, decoding, seed and sample. What stands there is read
and never asked again, whatever has become of the cache, and a build that was killed goes on where
it was. A question that is changed has another key, and is asked.

A call that failed is asked again when the stage is. One that the provider refuses (too long, its
filter) is not: that is its answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar, cast

from harness.build.wildifeval.journal import ENDING, Asked, CallOutcome, outcome_of, read_asked
from harness.build.wildifeval.questions import Question
from harness.build.wildifeval.stage_model import StageModel
from harness.errors import CallError, FatalCallError, HarnessError, RequestRejected
from harness.middleware.budget import Budget
from harness.middleware.calls import ReplyUnsaved
from harness.middleware.key import call_key
from harness.middleware.stopping import Stop, Stopping
from harness.records import Decoding, Request
from harness.schedule.tally import Tally
from harness.store.attempts import AttemptWriter

T = TypeVar("T")

Watch = Callable[[str, Tally], AbstractContextManager[Any]]
"""Shows the progress of a stage, by its name, while it is entered."""


class Asking:
    """Asks the models of a build.

    folder: where the stages' files are; models: by the stages' names.
    seed: of the build; it gives each question's provider seed.

    used: by stage, the keys of the calls that were wanted; its file may hold others, of a build
        with other settings.
    """

    def __init__(
        self,
        folder: Path,
        models: Mapping[str, StageModel],
        *,
        seed: int,
        stop: Stop,
        watch: Watch,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._models = models
        self._seed = seed
        self._stop = stop
        self._watch = watch
        self._budget = budget
        self._clock = clock
        self._error: BaseException | None = None
        self.used: dict[str, set[str]] = {}

    def tells_logprobs(self, stage: str) -> bool:
        """Whether a stage's model tells log-probabilities."""
        return "logprobs" in self._models[stage].features

    async def ask(
        self,
        stage: str,
        questions: Sequence[Question],
        decoding: Decoding,
        said: Callable[[Asked], T],
        samples: int = 1,
    ) -> list[list[T]]:
        """The answers to each question, one for each sample, as ``said`` reads them.

        said: pure; it is given what was refused or is empty, too.

        Raises: Stopping where the build is stopped, or its budget spent, before all have an
            answer; HarnessError where calls failed; what ends a run. All answers are kept.
        """
        model = self._models[stage]
        decoding = model.taken(decoding, stage)
        path = self._folder / f"{stage}{ENDING}"
        found = {
            line.key: said(line) for line in read_asked(path) if line.outcome != "error"
        }  # later lines win
        owed: dict[str, tuple[int, int]] = {}  # question and sample
        keys: list[list[str]] = []
        for place, question in enumerate(questions):
            own = []
            for sample in range(samples):
                request = model.request(question, decoding, sample, self._seed)
                own.append(key := call_key(model.backend, model.endpoint, request))
                if key not in found:
                    owed[key] = (place, sample)
            keys.append(own)
        wanted = {key for own in keys for key in own}
        self.used.setdefault(stage, set()).update(wanted)
        tally = Tally(len(owed), len(wanted) - len(owed))
        tally.budget = self._budget
        failed: list[str] = []
        if owed:
            work = (
                (key, model.request(questions[place], decoding, sample, self._seed))
                for key, (place, sample) in owed.items()
            )
            with AttemptWriter(path) as writer, self._watch(stage, tally):

                def keep(line: Asked) -> None:
                    writer.append(cast("Any", line))  # it encodes whatever a line is made of
                    _count(tally, line)
                    if line.outcome == "error":
                        failed.append(line.error or "")
                    else:
                        found[line.key] = said(line)

                async with asyncio.TaskGroup() as group:
                    for _ in range(min(model.workers, len(owed))):
                        group.create_task(self._work(work, model, keep))
        if self._error is not None:
            raise self._error
        if len(failed) + sum(key in found for key in owed) < len(owed):
            raise Stopping
        if failed:
            raise HarnessError(
                f"{len(failed):,} of {len(owed):,} calls of the stage {stage!r} failed, the last "
                f"one thus: {failed[-1]}.",
                "The same command makes them again, and only them.",
            )
        return [[found[key] for key in own] for own in keys]

    async def _work(
        self,
        work: Iterator[tuple[str, Request]],
        model: StageModel,
        keep: Callable[[Asked], None],
    ) -> None:
        try:
            while not self._stop.requested and (next_ := next(work, None)) is not None:
                keep(await self._answer(*next_, model))
                await asyncio.sleep(0)  # a call that never waits must let the others have a turn
        except Stopping:
            return
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        self._stop.request()

    async def _answer(self, key: str, request: Request, model: StageModel) -> Asked:
        started = self._clock()
        about, sample = request.origin.instance, request.sample
        try:
            call = await model.calls(request)
        except ReplyUnsaved as error:
            self._end(error)  # once what was paid for is written down here
            call = error.call
        except FatalCallError:
            raise
        except CallError as error:
            outcome: CallOutcome = "refused" if isinstance(error, RequestRejected) else "error"
            return Asked(
                1, key, about, sample, model.name, outcome, started, self._clock(),
                error=f"{type(error).__name__}: {error}",
            )  # fmt: skip
        reply = call.reply
        return Asked(
            1, key, about, sample, model.name, outcome_of(call), started, self._clock(),
            text=reply.text, logprobs=reply.logprobs, call_id=call.id, usage=reply.usage,
            cost_usd=model.cost(call), cached=call.cached,
        )  # fmt: skip


def _count(tally: Tally, line: Asked) -> None:
    tally.finish_sample(None)
    if line.outcome == "error":
        tally.last_error = line.error or ""
    if line.cached or line.call_id is not None:
        tally.count_call(line)
