"""Long answers are scored in another process, within a limit; real tasks, no fakes."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.calls.signals import Stop
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.assessment import LONG_ANSWER_CHARS, LongAnswerAssessor, assess, feedback
from harness.engine.plan import RunPlan, UnfinishedSample
from harness.engine.resolving import build_task
from harness.engine.samples import SampleRunner
from harness.records import Attempt, Instance, Reply, Score
from harness.store.judgements import Judgement, combined_verdict
from tests.conftest import Scripted, Sums, run_file
from tests.engine.toys import bound
from tests.rows import WORDS

SENTENCES = Reply("A b. " * (LONG_ANSWER_CHARS // 4), "stop")
"""12,500 characters."""

ENDLESS = Reply(SENTENCES.text * 400, "stop")
"""Takes seconds to score."""


SLOW = """
def sentences(text):
    for _ in range(20):
        count = sum(character == "." for character in text)
    return count == 3
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


@pytest.fixture
def run(tmp_path: Path, executing_code: None) -> RunFile:
    (tmp_path / "slow.py").write_text(SLOW)
    task = WORDS | {"checks": [str(tmp_path / "slow.py")]}
    return run_file(task=task, rounds={"max": 2})


def built(run: RunFile, settings: Settings) -> tuple[Any, Instance[Any]]:
    task = build_task(run, settings)
    return task, next(iter(task.instances()))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def long_answers(run: RunFile, settings: Settings, said: list[str]) -> Iterator[LongAnswerAssessor]:
    task, _ = built(run, settings)
    scorer = LongAnswerAssessor(task, run, settings, said.append)
    yield scorer
    scorer.close()


def test_a_long_answer_gets_the_verdict_and_feedback_of_this_process(
    run: RunFile, settings: Settings, long_answers: LongAnswerAssessor
) -> None:
    task, instance = built(run, settings)
    expected = assess(task, instance, SENTENCES)
    found = long_answers.assess(instance, SENTENCES)
    assert found == expected
    assert found.passed is False
    said = long_answers.feedback(instance, SENTENCES, found)
    assert said == feedback(task, instance, SENTENCES, expected)
    assert not found.is_unscored


async def test_a_long_answer_blocks_nothing_and_has_no_verdict_if_it_takes_too_long(
    run: RunFile, settings: Settings, said: list[str]
) -> None:
    task, instance = built(run, settings)
    long_answers = LongAnswerAssessor(task, run, settings, said.append, cpu_s=0.3)
    plan = RunPlan(task, run, [instance], None)
    written: list[Attempt] = []
    endless = Scripted(lambda _: ENDLESS.text)
    stop = Stop()
    runner = SampleRunner(
        plan,
        bound(endless, stop),
        lambda one, *_: written.append(one),
        stop,
        long_answers=long_answers,
    )
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    other = asyncio.create_task(other_work())
    try:
        assert await runner.finish(UnfinishedSample(instance, 0, 1)) == 1
    finally:
        other.cancel()
        long_answers.close()
    (attempt,) = written  # no second round: there is nothing to say about the first
    assert (attempt.outcome, attempt.passed) == ("ok", None)
    says_pass = Judgement(
        1, "j", instance.id, 0, 1, "", "ok", 0.0, 0.0, scores={"j.good": Score(True, True)}
    )
    assert combined_verdict(attempt.passed, attempt.scores, [says_pass]) is None
    assert attempt.error == "not scored: scoring took more than 0.3 s of CPU time"
    assert said == [
        "An answer has no verdict: scoring its 5,000,000 characters took more than 0.3 s of CPU "
        "time."
    ]
    assert turns > 20


def test_the_next_answer_after_a_timeout_is_scored(
    run: RunFile, settings: Settings, said: list[str]
) -> None:
    task, instance = built(run, settings)
    long_answers = LongAnswerAssessor(task, run, settings, said.append, cpu_s=1)
    try:
        assert long_answers.assess(instance, ENDLESS).is_unscored
        assert long_answers.assess(instance, Reply("a" * LONG_ANSWER_CHARS, "stop")).passed is False
    finally:
        long_answers.close()


class Unbuildable(Sums):
    """A task that only exists in this process."""

    def score(self, instance: Instance[int], text: str) -> Mapping[str, Score]:
        return {"long": Score(len(text) > LONG_ANSWER_CHARS, len(text) > LONG_ANSWER_CHARS)}


def test_a_task_that_cannot_be_built_elsewhere_is_scored_here(settings: Settings) -> None:
    task = Unbuildable()
    scorer = LongAnswerAssessor(task, run_file(), settings)
    instance = next(iter(task.instances()))
    assert scorer.assess(instance, Reply("1" * (LONG_ANSWER_CHARS + 1), "stop")).passed is True


def test_an_error_of_the_task_is_raised_here(long_answers: LongAnswerAssessor) -> None:
    with pytest.raises(AttributeError, match="NoneType"):
        long_answers.assess(Instance("a", data=None), SENTENCES)
