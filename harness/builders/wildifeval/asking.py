"""Asking models what a stage wants to know: each question through the call stack, and written down.

A stage's answers stand in ``STAGE.calls.jsonl``, one line for each, under the key of the call
(`harness.calls.key`): model, messages, decoding, seed and sample. What stands there is read
and never asked again, whatever has become of the cache, and a build that was killed goes on where
it was. A question that is changed has another key, and is asked.

A call that failed is asked again when the stage is. One that the provider refuses (too long, its
filter) is not: that is its answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from harness.builders.wildifeval.journal import ENDING, Asked, CallOutcome, outcome_of, read_asked
from harness.builders.wildifeval.questions import Question
from harness.builders.wildifeval.stage_model import StageModel
from harness.calls.budget import Budget
from harness.calls.calls import ReplyUnsaved
from harness.calls.key import call_key
from harness.calls.signals import Stop, Stopping
from harness.errors import CallError, FatalCallError, HarnessError, RequestRejected
from harness.records import Decoding, Request
from harness.run.tally import Tally
from harness.store.json_lines import JsonLinesWriter

T = TypeVar("T")

LOOKED_AT = 20
"""Questions whose first answers are looked at before the others are asked."""

Look = Callable[[Sequence[Asked]], None]
"""Looks at answers, and raises what ends the build where more of them would be of no use."""

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
        look: Look | None = None,
    ) -> list[list[T]]:
        """The answers to each question, one for each sample, as ``said`` reads them.

        said: pure; it is given what was refused or is empty, too.
        look: looks at the answers to the first questions before the others are asked.

        Raises: Stopping where the build is stopped, or its budget spent, before all have an
            answer; HarnessError where calls failed; what ends a run; what ``look`` raises. All
            answers are kept.
        """
        model = self._models[stage]
        decoding = model.taken(decoding, stage)
        keys = self._keys(questions, decoding, samples, model)
        places = {
            key: (place, sample) for place, own in enumerate(keys) for sample, key in enumerate(own)
        }
        self.used.setdefault(stage, set()).update(places)
        first = dict.fromkeys(own[0] for own in keys[:LOOKED_AT]) if look else {}
        looked_at: dict[str, Asked] = {}
        found: dict[str, T] = {}
        failed: list[str] = []

        def take(line: Asked) -> None:
            found[line.key] = said(line)
            if line.key in first:
                looked_at[line.key] = line

        path = self._folder / f"{stage}{ENDING}"
        for line in read_asked(path):  # later lines win
            if line.outcome != "error" and line.key in places:
                take(line)
        owed = [key for key in places if key not in found]
        tally = Tally(len(owed), len(found))
        tally.budget = self._budget
        with JsonLinesWriter(path) as writer, self._watch(stage, tally) if owed else nullcontext():

            def keep(line: Asked) -> None:
                writer.append(line)
                _count(tally, line)
                if line.outcome == "error":
                    failed.append(line.error or "")
                else:
                    take(line)

            async def answer(keys: Sequence[str]) -> None:
                work = (
                    (key, model.request(questions[place], decoding, sample, self._seed))
                    for key in keys
                    for place, sample in [places[key]]
                )
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(model.workers, len(keys))):
                        group.create_task(self._work(work, model, keep))

            await answer([key for key in owed if key in first])
            if look and not self._stop.requested:
                look([looked_at[key] for key in first if key in looked_at])
            await answer([key for key in owed if key not in first])
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

    def _keys(
        self, questions: Sequence[Question], decoding: Decoding, samples: int, model: StageModel
    ) -> list[list[str]]:
        """Of each question the keys of its calls, one for each sample."""
        found = []
        for question in questions:
            requests = (model.request(question, decoding, n, self._seed) for n in range(samples))
            found.append([call_key(model.backend, model.endpoint, one) for one in requests])
        return found

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
            text=reply.text, logprobs=None if reply.reasoning else reply.logprobs,
            call_id=call.id, usage=reply.usage, cost_usd=model.cost(call), cached=call.cached,
        )  # fmt: skip


def _count(tally: Tally, line: Asked) -> None:
    tally.finish_sample(None)
    if line.outcome == "error":
        tally.last_error = line.error or ""
    if line.cached or line.call_id is not None:
        tally.count_call(line)
