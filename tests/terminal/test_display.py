"""What `harness run` says of its progress."""

import asyncio
import io
import time

import pytest
from msgspec.structs import replace
from rich.console import Console

from harness.calls.signals import Load, Notices, Stop
from harness.engine.progress import Tally
from harness.records import Attempt, Score
from harness.terminal import display as live
from harness.terminal.display import Display


def begun(tally: Tally) -> Tally:
    """Fifteen samples have a first answer; the one that passed has finished."""
    for n in range(15):
        one = Attempt(1, f"{n}", 0, 1, {}, "c", {}, "ok", 0.0, 1.0, call_id=f"{n}")
        tally.record(one, n == 0)
    tally.finish_sample(1)
    return tally


async def line(
    tally: Tally, capsys: pytest.CaptureFixture[str], notices: Notices | None = None
) -> str:
    """The last line of progress without a terminal."""
    notices = notices or Notices()
    with Display({"r": "r"}) as display, display.watch("r", tally, Stop(), notices):
        pass
    return capsys.readouterr().err


async def test_the_remaining_time_includes_a_pause(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices()
    assert "left 0:00:0" in await line(begun(Tally(30)), capsys, notices)
    notices.pauses |= {"model": time.time() + 3 * 3600 + 30, "judges.0.model": time.time() - 60}
    assert "left 3:00:" in await line(begun(Tally(30)), capsys, notices)


async def test_rates_are_of_all_samples_begun(capsys: pytest.CaptureFixture[str]) -> None:
    said = await line(begun(Tally(30, rounds=4)), capsys)
    assert "samples 1/30" in said
    assert "first answers 6.7% of 15, last round 6.7% of 15, calls 15" in said
    assert "100.0%" not in said


async def test_crashes_alone_have_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(2)
    answer = Attempt(1, "a", 0, 1, {}, "c", {}, "ok", 0.0, 1.0, scores={"quality": Score(0.9)})
    tally.record(answer)
    tally.record(replace(answer, outcome="crashed", scores={}), False)
    said = await line(tally, capsys)
    assert "mean quality 0.9 of 1" in said
    assert "passed" not in said
    tally.record(answer, True)
    assert "passed 50.0% of 2" in await line(tally, capsys)


async def test_a_run_of_one_round_has_one_rate(capsys: pytest.CaptureFixture[str]) -> None:
    assert ", passed 6.7% of 15, calls" in await line(begun(Tally(30)), capsys)


async def test_a_resumed_runs_rates_include_earlier_sessions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = await line(begun(Tally(30, 70, passed=70, judged=85)), capsys)
    assert "samples 71/100" in said
    assert "passed 71.0% of 100, calls 15" in said


async def test_a_line_says_what_limits_the_speed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PROGRESS_INTERVAL_S", 0.01)
    notices = Notices()
    notices.loads["model"] = lambda: Load(16, 4, 3, 2, "limits.concurrency (16)")
    notices.loads["judges.0.model"] = lambda: Load(2)
    with Display({"r": "r"}) as display, display.watch("r", begun(Tally(30)), Stop(), notices):
        await asyncio.sleep(0.1)
    said = capsys.readouterr().err
    assert "in flight 18, retries 3 (2 rate-limited), limited by limits.concurrency (16)" in said


async def test_a_narrow_terminal_breaks_lines_between_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Console(file=io.StringIO(), width=40, force_terminal=False)
    monkeypatch.setattr(live, "messages", told)
    display = Display({"r": "r"}, visible=False)
    notices = Notices()
    notices.loads["model"] = lambda: Load(16, 4, 3, 2, "limits.concurrency (16)")
    with display.watch("r", begun(Tally(30, rounds=4)), Stop(), notices):
        told.print(display._render())
    lines = told.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "limited by limits.concurrency (16)" in lines
    assert any(one.startswith("first answers 6.7% of 15") for one in lines)


def test_lines_that_a_narrower_terminal_wraps_are_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Console(file=io.StringIO(), width=50, force_terminal=True, legacy_windows=False)
    monkeypatch.setattr(live, "messages", told)
    display = Display({"r": "r"})
    display._drawn_width, display._drawn_lengths = 110, [48, 105, 97, 50]
    display._erase_wrapped_rows()
    assert told.file.getvalue().count("\x1b[1A") == 3  # type: ignore[attr-defined]
    display._drawn_width, display._drawn_lengths = 40, [40, 40]
    display._erase_wrapped_rows()  # a wider terminal leaves the lines as they are
    assert told.file.getvalue().count("\x1b[1A") == 3  # type: ignore[attr-defined]


def test_a_narrow_terminal_keeps_the_names_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Console(file=io.StringIO(), width=40)
    monkeypatch.setattr(live, "messages", told)
    display = Display({"a": "a_rather_long_name_of_a_run", "b": "another_one_as_long"})
    display.tallies["a"] = begun(Tally(30))
    told.print(display._render())
    said = told.file.getvalue()  # type: ignore[attr-defined]
    assert "a_rather_long_name_of_a_run  1/30" in said
    assert "another_one_as_long" in said
