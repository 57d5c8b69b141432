from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.calls.signals import Stop
from harness.engine.plan import UnfinishedSample
from harness.engine.samples import SampleRunner
from harness.engine.session import process_all
from harness.errors import FatalCallError, RequestRejected
from harness.plugins.benchmarks.collie.paraphrase import Paraphraser, keeps
from harness.records import Attempt, Instance, Reply, Request
from harness.store.json_lines import JsonLinesWriter, read_lines
from tests.columns import read_columns
from tests.conftest import Scripted, Sums
from tests.engine.toys import QUARTER, bound, plan


class ParaphrasableSums(Sums):
    def must_keep(self, instance: Instance[int]) -> Sequence[str]:
        return (str(instance.data),)


def asked_text(request: Request) -> str:
    return request.messages[0].content.split("---\n")[1].removesuffix("\n---")


async def run(
    folder: Path,
    second: Scripted,
    *,
    rounds: int = 1,
    stop: Stop | None = None,
    prompt: str = "own",
) -> tuple[Scripted, list[Attempt]]:
    """A run of three sums, answered wrongly, paraphrased by a second model."""
    stop = stop or Stop()
    first, task, path = Scripted(lambda request: "-1"), ParaphrasableSums(3), folder / "a.jsonl"
    run_plan = plan(path, task, rounds={"max": rounds})
    paraphraser = Paraphraser(task, bound(second, stop, name="second", price=QUARTER), prompt)
    with JsonLinesWriter(path) as writer:
        runner = SampleRunner(
            run_plan,
            bound(first, stop),
            lambda one, *_: writer.append(one),
            stop,
            paraphraser=paraphraser,
        )

        async def work(sample: UnfinishedSample) -> None:
            await runner.finish(sample)

        await process_all(run_plan.unfinished(), work, workers=4, stop=stop)
    return first, [msgspec.json.decode(line, type=Attempt) for _, line in read_lines(path)]


async def test_a_paraphrase_that_keeps_the_values_is_sent(tmp_path: Path) -> None:
    second = Scripted(lambda request: f"Kindly: {asked_text(request)}")
    first, attempts = await run(tmp_path, second, rounds=2)
    texts = [request.messages[0].content for request in first.requests]
    assert all(text.startswith("Kindly: What is ") for text in texts)
    assert {a.feedback for a in attempts if a.round == 1} == {"Kindly: -1 is wrong."}
    one = next(a for a in attempts if a.round == 1)
    assert [rewriting.of for rewriting in one.polish] == ["instruction", "feedback"]
    assert one.request["messages"][0]["content"].startswith("Kindly: ")


async def test_a_paraphrase_that_loses_a_value_is_recorded_but_not_sent(tmp_path: Path) -> None:
    second = Scripted(lambda request: "Please add the number to itself.")
    first, attempts = await run(tmp_path, second)
    assert all(request.messages[0].content.startswith("What is") for request in first.requests)
    assert [a.polish[0].used for a in attempts] == [False] * 3
    _, calls = read_columns(tmp_path / "a.jsonl")
    assert (calls.n_calls, calls.known_cost_usd) == (6, 0.75)


@pytest.mark.parametrize(
    "answer", [Reply("What is 0 1 2", "length"), Reply("", "stop"), RequestRejected("no")]
)
async def test_a_truncated_empty_or_failed_paraphrase_is_not_used(
    tmp_path: Path, answer: Reply | Exception
) -> None:
    first, attempts = await run(tmp_path, Scripted(lambda _: answer))
    assert all(request.messages[0].content.startswith("What is") for request in first.requests)
    assert not any(a.polish[0].used for a in attempts)
    assert all(a.outcome == "ok" for a in attempts)


async def test_a_wrong_key_of_the_second_model_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(FatalCallError):
        await run(tmp_path, Scripted(lambda _: FatalCallError("401")))


async def test_a_run_that_stops_before_the_paraphrase_keeps_the_reply(tmp_path: Path) -> None:
    stop = Stop()
    second = Scripted(lambda request: asked_text(request), delay=0.01)
    running = asyncio.create_task(run(tmp_path, second, rounds=2, stop=stop))
    async with asyncio.timeout(10):
        while len(second.requests) < 4:  # noqa: ASYNC110 (until the first feedback is under way)
            await asyncio.sleep(0.001)
    stop.request()
    _, attempts = await running
    assert attempts
    kept = {(a.instance, a.round): a.text for a in attempts}
    first, attempts = await run(tmp_path, second, rounds=2)
    assert len({(a.instance, a.round) for a in attempts}) == 6
    asked = {(r.origin.instance, r.origin.round) for r in first.requests}
    assert not asked & kept.keys(), "no reply is asked for again"
    latest = {(a.instance, a.round): a for a in attempts}
    for request in first.requests:
        if request.origin.round == 2:
            assert request.messages[-1].content.endswith("is wrong.")
    assert latest["sum/1", 2].passed is False


@given(st.integers(0, 9999), st.text(alphabet="0123456789 x", max_size=12))
def test_a_number_is_kept_as_a_whole_number_only(number: int, around: str) -> None:
    assert keeps(around, [str(number)]) == (str(number) in re.findall(r"\d+", around))


def test_all_values_must_be_there() -> None:
    assert keeps("contains 'Nugent', 'is' and 7", ["Nugent", "is", "7"])
    assert not keeps("contains 'Nugent'", ["Nugent", "witness"])


async def test_the_papers_prompt(tmp_path: Path) -> None:
    second = Scripted(lambda request: "What is 0 1 2?")
    await run(tmp_path, second, prompt="paper")
    system, user = second.requests[0].messages
    assert (system.role, user.role) == ("system", "user")
    assert system.content == ("You are a helpful assistant to polish sentence in natural language.")
    assert user.content == (
        "Please rewrite the following paragraph to be more fluent, without changing the original "
        "meaning. You should directly output the revised paragraph. The original paragraph:\n "
        "What is 0 + 0?"
    )
