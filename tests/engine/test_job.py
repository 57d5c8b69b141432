"""Sessions of a run from `prepare` to `execute`."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.calls.signals import Notices, Stop
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import SessionResult, execute
from harness.engine.preparation import prepare
from harness.engine.progress import Tally
from harness.records import Reply
from harness.store.index import AttemptIndex
from tests.rows import WORDS

RUN = {
    "task": WORDS,
    "limit": 2,
    "model": {"backend": "simulated", "name": "m", "accuracy": 0.5},
    "rounds": {"max": 3},
    "samples": 50,
    "limits": {"concurrency": 2},
}


class Session:
    """A session of the run in a folder, which stops after `most` attempts."""

    def __init__(self, folder: Path, most: int = 1_000_000) -> None:
        self.folder, self.most = folder, most
        self.at_start = (0, 0)
        self.notices = Notices()

    @contextlib.contextmanager
    def watch(self, tally: Tally, stop: Stop, notices: Notices) -> Iterator[None]:
        self.at_start = tally.first_judged, tally.judged
        self.notices = notices
        loop, ended = asyncio.get_running_loop(), False

        def check() -> None:
            if tally.attempts >= self.most:
                stop.request()
            elif not ended:
                loop.call_soon(check)

        check()
        yield
        ended = True

    async def run(self, **changes: object) -> SessionResult:
        folders = dict.fromkeys(("runs_dir", "cache_dir", "data_dir"), self.folder)
        job = prepare(RunFile.model_validate({**RUN, **changes}), "run", Settings(**folders))
        return await execute(job, self.watch)


async def test_a_resumed_runs_rates_cover_all_samples_begun(tmp_path: Path) -> None:
    """Only passes finish early: without earlier sessions, failing samples would dominate."""
    stopped = await Session(tmp_path, 40).run()
    assert stopped.ending == "interrupted"
    begun = len(AttemptIndex(tmp_path / "run" / "attempts.jsonl").last_rounds())
    again = Session(tmp_path)
    tally = (await again.run()).tally
    assert again.at_start == (begun, begun)
    attempts = AttemptIndex(tmp_path / "run" / "attempts.jsonl").attempts
    first, last = attempts.passed[attempts.round == 1], attempts.last_rounds().passed
    assert (tally.first_passed, tally.first_judged) == (np.sum(first == 1), len(first))
    assert (tally.passed, tally.judged) == (np.sum(last == 1), len(last))


@pytest.mark.parametrize(
    ("reason", "shown"), [("weather", "'weather'"), ("x" * 9000, f"'{'x' * 79}…'")]
)
async def test_an_unknown_finish_reason_is_reported(
    tmp_path: Path, reason: str, shown: str
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"question": "{number}?", "target": "a"}}\n' for number in range(3)))
    reasons = ["stop", reason, reason]

    @harness.backend
    def ending(prompt: str) -> Reply:
        return Reply("a", reasons[int(prompt.removesuffix("?"))])

    task = {"name": "jsonl", "path": str(rows), "prompt": "{{ question }}", "checks": ["contains"]}
    session = Session(tmp_path)
    model = {"backend": "ending", "name": "m"}
    await session.run(task=task, model=model, rounds={"max": 1}, samples=1)
    [notice] = [text for text in session.notices.messages if "finish reason" in text]
    assert ("--retry weather" in notice) == (reason == "weather")
    assert f"model, finish reason {shown}: not known, and given for 2 answers" in notice
    assert len(notice) < 300


async def test_a_judges_unknown_finish_reason_is_reported(tmp_path: Path) -> None:
    @harness.backend
    def judging(prompt: str) -> Reply:
        return Reply("yes", "weather")

    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "a", "question": "Why?", "target": "a", "criteria": "Is it kind?"}\n')
    task = {"name": "jsonl", "path": str(rows), "prompt": "{{ question }}", "checks": ["contains"]}
    judge = {"name": "yes_no", "votes": 1, "model": {"backend": "judging", "name": "m"}}
    session = Session(tmp_path)
    await session.run(task=task, rounds={"max": 1}, samples=1, judges=[judge])
    [notice] = [text for text in session.notices.messages if "finish reason" in text]
    assert notice.startswith("judges.yes_no.model, finish reason 'weather': not known")
