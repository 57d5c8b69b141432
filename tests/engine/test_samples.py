import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from harness.calls.calls import Calls, ReplyUnsaved, UncachedCalls
from harness.calls.keys import call_key
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Stop
from harness.engine.plan import CachedInstances, UnfinishedSample
from harness.engine.progress import Tally, Verdicts
from harness.engine.samples import SampleRunner
from harness.engine.session import process_all
from harness.errors import FatalCallError, RequestRejected, StoreFailed
from harness.records import Attempt, Call, Instance, Reply, Request
from harness.store.json_lines import JsonLinesWriter, read_lines
from tests.calls.paid import paid_calls
from tests.conftest import Scripted, Sums, sum_asked
from tests.engine.toys import bound, plan


class Setting:
    """A run on the toy task in a temporary folder."""

    def __init__(self, folder: Path, task: Sums | None = None, **run: Any) -> None:
        self.path = folder / "attempts.jsonl"
        self.task = task or Sums()
        self.options = run
        self.instances: Iterable[Instance[int]] = list(self.task.instances())
        self.stop = Stop()
        self.tally = Tally()

    async def run(self, backend: Scripted, workers: int = 4, calls: Calls | None = None) -> None:
        run_plan = plan(self.path, self.task, instances=self.instances, **self.options)
        self.tally = Tally(run_plan.count_samples()[1])
        model = bound(backend, self.stop, calls=calls, slots=workers)
        with JsonLinesWriter(self.path) as writer:

            def record(attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
                writer.append(attempt)
                self.tally.record(attempt, passed, before)

            runner = SampleRunner(run_plan, model, record, self.stop)

            async def work(sample: UnfinishedSample) -> None:
                self.tally.finish_sample(await runner.finish(sample))

            await process_all(run_plan.unfinished(), work, workers=workers, stop=self.stop)

    def attempts(self) -> dict[tuple[str, int, int], Attempt]:
        found = [msgspec.json.decode(line, type=Attempt) for _, line in read_lines(self.path)]
        return {(a.instance, a.sample, a.round): a for a in found}


def wrong_until(round_: int) -> Scripted:
    """Answers correctly from the given round."""
    return Scripted(lambda request: str(2 * sum_asked(request) + (request.origin.round < round_)))


async def test_every_sample_of_every_instance_is_answered_once(tmp_path: Path) -> None:
    setting, backend = Setting(tmp_path, samples=3), Scripted()
    await setting.run(backend)
    assert len(setting.attempts()) == len(backend.requests) == 18
    assert all(attempt.passed for attempt in setting.attempts().values())
    assert setting.tally.finished == 18


async def test_an_attempt_has_all_documented_fields(tmp_path: Path) -> None:
    setting = Setting(tmp_path, samples=1, rounds={"max": 2})
    await setting.run(wrong_until(2))
    first, second = (setting.attempts()["sum/1", 0, r] for r in (1, 2))
    assert first.groups == {"parity": "odd"}
    assert first.request["messages"] == [{"role": "user", "content": "What is 1 + 1?"}]
    assert first.scores["exact"].reason == "3 is wrong"
    assert (first.passed, first.feedback) == (False, "3 is wrong.")
    assert (second.passed, second.feedback) == (True, None)
    assert second.request["follows"] == 1
    assert first.cluster == second.cluster == first.request["messages_hash"]
    assert first.call_id != second.call_id


async def test_the_next_round_sends_the_whole_conversation(tmp_path: Path) -> None:
    setting, backend = Setting(tmp_path, Sums(1), rounds={"max": 3}), wrong_until(9)
    await setting.run(backend)
    assert [message.content for message in backend.requests[2].messages] == [
        "What is 0 + 0?", "1", "1 is wrong.", "1", "1 is wrong.",
    ]  # fmt: skip
    assert [message.role for message in backend.requests[2].messages] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


@pytest.mark.parametrize(("stop_on_pass", "rounds"), [(True, 2), (False, 4)])
async def test_stop_on_pass(tmp_path: Path, stop_on_pass: bool, rounds: int) -> None:
    setting = Setting(tmp_path, Sums(1), rounds={"max": 4, "stop_on_pass": stop_on_pass})
    await setting.run(wrong_until(2))
    assert len(setting.attempts()) == rounds


async def test_a_stopped_runs_rates_cover_all_samples_begun(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Sums(4), rounds={"max": 4})

    def answer(request: Request) -> str:
        if request.origin.round == 2:
            setting.stop.request()
        return str(2 * sum_asked(request)) if sum_asked(request) == 0 else "wrong"

    await setting.run(Scripted(answer))
    tally = setting.tally
    assert tally.finished == 1, "only what passes finishes early"
    assert (tally.passed, tally.judged) == (tally.first_passed, tally.first_judged) == (1, 4)


async def test_a_failed_call_is_an_attempt_without_a_verdict_and_is_repeated(
    tmp_path: Path,
) -> None:
    setting = Setting(tmp_path, rounds={"max": 2})
    await setting.run(Scripted(lambda r: RequestRejected("too long") if sum_asked(r) == 3 else "x"))
    failed = setting.attempts()["sum/3", 0, 1]
    assert (failed.outcome, failed.passed, failed.text) == ("error", None, None)
    assert failed.error == "RequestRejected: too long"
    assert ("sum/3", 0, 2) not in setting.attempts()
    again = Scripted()
    await setting.run(again)
    assert [request.origin.instance for request in again.requests] == ["sum/3"]
    assert setting.attempts()["sum/3", 0, 1].passed


async def test_a_finished_run_owes_nothing(tmp_path: Path) -> None:
    setting, again = Setting(tmp_path), Scripted()
    await setting.run(Scripted())
    await setting.run(again)
    assert not again.requests


async def test_more_samples_and_rounds_are_added_to_a_run(tmp_path: Path) -> None:
    await Setting(tmp_path, samples=1).run(wrong_until(2))
    grown, backend = Setting(tmp_path, samples=2, rounds={"max": 2}), wrong_until(2)
    await grown.run(backend)
    assert len(grown.attempts()) == 24
    assert len(backend.requests) == 18
    second = next(r for r in backend.requests if r.origin.sample == 0)
    assert second.messages[2].content.endswith("is wrong.")  # rebuilt from the recorded text


@pytest.mark.parametrize("error", [FatalCallError("401"), ZeroDivisionError()])
async def test_other_errors_stop_the_run_once_calls_in_flight_are_written(
    tmp_path: Path, error: Exception
) -> None:
    async def slow_but_one(request: Request) -> Reply:
        if request.origin.instance == "sum/2":
            raise error
        await asyncio.sleep(0.02)
        return Reply("x", "stop")

    setting = Setting(tmp_path, Sums(50))
    calls = UncachedCalls(slow_but_one, partial(call_key, "scripted", ""))
    with pytest.raises(type(error)):
        await setting.run(Scripted(), workers=4, calls=calls)
    assert set(setting.attempts()) == {(f"sum/{n}", 0, 1) for n in (0, 1)}


async def test_a_stopped_run_finishes_calls_in_flight(tmp_path: Path) -> None:
    setting, backend = Setting(tmp_path, Sums(50), rounds={"max": 2}), wrong_until(9)
    backend.delay = 0.02
    running = asyncio.create_task(setting.run(backend, workers=5))
    await asyncio.sleep(0.01)
    setting.stop.request()
    await running
    assert len(setting.attempts()) == len(backend.requests) == 5
    setting.stop = Stop()
    await setting.run(backend)
    assert len(setting.attempts()) == len(backend.requests) == 100


async def test_a_reply_that_cannot_be_cached_is_still_written(tmp_path: Path) -> None:
    async def unsaved(request: Request) -> Call:
        raise ReplyUnsaved(StoreFailed("disk full"), Call("ab", Reply("0", "stop"), False, 0, 1))

    setting = Setting(tmp_path, Sums(1))
    with pytest.raises(StoreFailed, match="disk full"):
        await setting.run(Scripted(), calls=unsaved)
    assert setting.attempts()["sum/0", 0, 1].passed


async def test_instances_that_share_a_prompt_share_the_call(tmp_path: Path) -> None:
    setting, backend = Setting(tmp_path, Sums(9, shared=True), samples=2), Scripted(delay=0.01)
    with ReplyCache(tmp_path / "replies.sqlite") as replies:
        calls = paid_calls(backend.generate, replies)
        await setting.run(backend, workers=18, calls=calls)
    attempts = setting.attempts()
    assert len(attempts) == 18
    assert len(backend.requests) == len({a.call_id for a in attempts.values()}) == 6
    assert len({a.cluster for a in attempts.values()}) == 3
    assert sum(not a.cached for a in attempts.values()) == 6


async def test_memory_does_not_grow_with_the_number_of_instances(tmp_path: Path) -> None:
    """The stream of unfinished samples is consumed lazily, never collected."""
    made = 0

    class Many(Sums):
        def instances(self) -> Any:
            nonlocal made
            for instance in super().instances():
                made += 1
                yield instance

    setting, backend = Setting(tmp_path, Many(1000)), Scripted(delay=0.01)
    setting.instances, made = CachedInstances(setting.task, max_cached=10), 0
    running = asyncio.create_task(setting.run(backend, workers=5))
    await asyncio.sleep(0.005)
    counted = 1000  # one pass counts the samples
    assert made - counted <= 5
    setting.stop.request()
    await running


@pytest.mark.parametrize(("model", "recorded"), [("m-0613", "m-0613"), ("m", UNSET), (None, UNSET)])
async def test_the_model_that_answered_is_recorded_if_it_is_another_one(
    tmp_path: Path, model: str | None, recorded: object
) -> None:
    setting = Setting(tmp_path)
    await setting.run(Scripted(lambda request: Reply("2", "stop", model=model)))
    attempts = setting.attempts().values()
    assert attempts
    assert {attempt.request["model"] for attempt in attempts} == {"m"}
    assert all(attempt.answered_by == recorded for attempt in attempts)
