"""Shows the progress of runs, as plain lines without a terminal, and handles Ctrl-C."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import NamedTuple, Self, TypeVar

from rich.console import Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from harness.calls.signals import Notices, Stop
from harness.engine.progress import Tally
from harness.report.text import escape_name, escape_text, format_percent, format_usd
from harness.terminal.console import messages

T = TypeVar("T")

PROGRESS_INTERVAL_S = 10.0  # between lines of progress without a terminal
MIN_WIDE_COLUMNS = 60  # a narrower terminal shows only the names and samples of runs
_FACT_SEPARATOR = "   "  # between two facts
MIN_BUSY_SHARE = 0.9  # of a core; from this share on, the CPU limits a run


class _WatchedRun(NamedTuple):
    name: str
    tally: Tally
    stop: Stop
    notices: Notices


class Display:
    """A display of the progress of runs, which also handles Ctrl-C.

    Args:
        runs: The runs' titles, by name.
        visible: Whether to show anything. If not, the display only handles Ctrl-C.
    """

    def __init__(self, runs: Mapping[str, str], *, visible: bool = True) -> None:
        self.tallies: dict[str, Tally] = {}  # of the runs that have started
        self.interrupted = False  # by Ctrl-C
        self._runs = runs
        self._visible = visible
        self._stop: Callable[[], object] = lambda: None
        self._current: _WatchedRun | None = None
        self._live: Live | None = None
        self._cpu = _CpuMeter()
        self._drawn_width = 0  # columns of the terminal when the display was last drawn
        self._drawn_lengths: list[int] = []  # columns of each line that was drawn

    def __enter__(self) -> Self:
        if self._visible and messages.is_terminal:
            self._live = Live(
                get_renderable=self._render,
                console=messages,
                refresh_per_second=5,
                transient=True,
            )
            with contextlib.suppress(OSError):
                self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            # A closed terminal must not end the run.
            with contextlib.suppress(OSError):
                self._live.stop()

    def set_runs(self, runs: Mapping[str, str]) -> Self:
        """Set the titles of the runs to show, by name, and return this display."""
        self._runs = runs
        return self

    def interrupt(self) -> None:
        """Stop the current run after the calls in flight. Thread-safe."""
        self.interrupted = True
        self._stop()

    @contextlib.contextmanager
    def watch(self, name: str, tally: Tally, stop: Stop, notices: Notices) -> Iterator[None]:
        """Show a run's progress within a ``with`` block. Notices remain visible afterwards.

        The first Ctrl-C stops the run after the calls in flight, and the second one at once.
        """

        def print_notice(text: str) -> None:
            with contextlib.suppress(OSError):
                messages.print(Text(f"{name}: ") + escape_text(text), soft_wrap=True)

        self.tallies[name] = tally
        self._stop = partial(asyncio.get_running_loop().call_soon_threadsafe, stop.request)
        run = _WatchedRun(name, tally, stop, notices)
        self._current = run
        progress: AbstractContextManager[None] = contextlib.nullcontext()
        if self._visible and self._live is None:
            notices.on_status = print_notice  # immediately: logs are read from the end
            for text in notices.messages:  # earlier ones, for example from opening the cache
                print_notice(text)
            progress = _print_progress(run, self._cpu)
        with _handle_signals(self.interrupt), progress:
            try:
                yield
            finally:
                self._current = None
                if self._visible:
                    notices.on_status = print_notice

    def _render(self) -> RenderableType:
        run = self._current  # another thread may change it, and the tallies
        parts: list[RenderableType] = []
        if run is not None:
            parts.append(_run_view(run, self._cpu))
        parts.append(self._runs_table())
        content = Group(*parts)
        if self._live:
            self._erase_wrapped_rows()
            lines = messages.render_lines(content, pad=False)
            self._drawn_width = messages.width
            self._drawn_lengths = [Segment.get_line_length(line) for line in lines]
        return content

    def _runs_table(self) -> Table:
        """Return a table with one row per run, which is empty if there is only one run."""
        table = Table.grid(padding=(0, 2, 0, 0))
        is_narrow = messages.width < MIN_WIDE_COLUMNS
        table.add_column(no_wrap=True, overflow="fold" if is_narrow else "ellipsis")
        if len(self._runs) < 2:
            return table
        tallies = self.tallies.copy()
        for name, title in self._runs.items():
            cells = ["waiting"]
            if (tally := tallies.get(name)) is not None:
                rate = _rates(tally)[-1][1]
                cells = [_format_samples(tally), rate, f"calls {_format_calls(tally)}"]
            table.add_row(escape_name(title), *map(Text, cells[:1] if is_narrow else cells))
        return table

    def _erase_wrapped_rows(self) -> None:
        """Erase the rows, unknown to Rich, of lines that a narrowed terminal has wrapped."""
        width = max(1, messages.width)
        n_rows = 0
        if width < self._drawn_width:
            n_rows = sum(max(0, -(-length // width) - 1) for length in self._drawn_lengths)
        up = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
        messages.control(Control(ControlType.CARRIAGE_RETURN, *(up * n_rows)))


def format_exact_usd(cost: float) -> str:
    """Format US dollars with at least four decimal places, to compare them with a budget."""
    return format_usd(cost) if 0 < cost < 1 else f"${cost:,.4f}"


@contextlib.contextmanager
def _handle_signals(stop: Callable[[], None]) -> Iterator[None]:
    """In a ``with`` block, call ``stop`` at the first signal, and cancel the task at later ones."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    actions = iter([stop])

    def on_signal() -> None:
        action = next(actions, task.cancel)
        action()

    handled = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # from a closing terminal; nohup ignores it
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        numbers.append(hangup)
    for number in numbers:
        # Some platforms have no handlers, and only a program's main thread may set them.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, on_signal)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _rates(tally: Tally) -> list[tuple[str, str]]:
    """Return the labels and texts of the mean score or of the pass rates so far."""
    if tally.n_scored and not tally.judged_answers:
        mean = tally.score_sum / tally.n_scored
        return [(f"mean {escape_name(tally.score).plain}", f"{mean:.4g} of {tally.n_scored:,}")]
    counts = [("passed", tally.passed, tally.judged)]
    if tally.rounds > 1:
        first = ("first answers", tally.first_passed, tally.first_judged)
        counts = [first, ("last round", tally.passed, tally.judged)]
    rates = []
    for label, n_passed, n_judged in counts:
        text = f"{format_percent(n_passed, n_judged)} of {n_judged:,}" if n_judged else "none yet"
        rates.append((label, text))
    return rates


def _format_samples(tally: Tally) -> str:
    return (
        f"{tally.finished_earlier + tally.finished:,}/{tally.finished_earlier + tally.expected:,}"
    )


def _format_calls(tally: Tally) -> str:
    return f"{tally.calls:,}" + (f" (+{tally.cached:,} cached)" if tally.cached else "")


class _CpuMeter:
    """A meter of this process's CPU use, as a share of one core."""

    def __init__(self) -> None:
        self._share = 0.0
        self._measured_at = time.monotonic()
        self._cpu_s = time.process_time()

    def measure_share(self) -> float:
        """Return the CPU time used per second of wall time (1.0: one full core).

        It is measured at most once per second; calls in between return the last value.
        """
        now = time.monotonic()
        elapsed_s = now - self._measured_at
        if elapsed_s >= 1:
            cpu_s = time.process_time()
            self._share = (cpu_s - self._cpu_s) / elapsed_s
            self._measured_at = now
            self._cpu_s = cpu_s
        return self._share


def _speed_facts(notices: Notices, cpu: _CpuMeter) -> Iterator[tuple[str, str]]:
    loads = [load() for load in notices.loads.values()]
    yield "in flight", f"{sum(load.in_flight for load in loads):,}"
    if n_failed := sum(load.failed for load in loads):
        n_limited = sum(load.rate_limited for load in loads)
        yield "retries", f"{n_failed:,}" + (f" ({n_limited:,} rate-limited)" if n_limited else "")
    reasons = [load.limited_by for load in loads if load.limited_by]
    if cpu.measure_share() >= MIN_BUSY_SHARE:
        reasons = ["this machine's CPU"]
    if reasons:
        yield "limited by", reasons[0]


@contextlib.contextmanager
def _print_progress(run: _WatchedRun, cpu: _CpuMeter) -> Iterator[None]:
    """In a ``with`` block, print a line of progress at intervals, and at its end."""
    done = threading.Event()

    def print_line(*speed: tuple[str, str]) -> None:
        facts = [f"{label} {text}" for label, text in (*_run_facts(run), *speed)]
        with contextlib.suppress(OSError):  # a full disk or a closed pipe must not end the run
            messages.print(Text(f"{run.name}: {', '.join(facts)}"), soft_wrap=True)

    def print_lines() -> None:
        while not done.wait(PROGRESS_INTERVAL_S):
            print_line(*_speed_facts(run.notices, cpu))

    thread = threading.Thread(target=print_lines, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if run.tally.attempts:
            print_line()


def _run_view(run: _WatchedRun, cpu: _CpuMeter) -> RenderableType:
    """Return the bar, facts and notices of the current run."""
    tally = run.tally
    bar = Table.grid(padding=(0, 1))
    n_done = tally.finished_earlier + tally.done
    total = max(1, tally.finished_earlier + tally.expected)
    width = max(10, min(30, messages.width - len(run.name) - 2))
    bar.add_row(escape_name(run.name), ProgressBar(total=total, completed=n_done, width=width))
    facts = []
    for label, text in (*_run_facts(run), *_speed_facts(run.notices, cpu)):
        facts.append(Text.assemble((f"{label} ", "dim"), text))
    parts: list[RenderableType] = [bar, _wrap_facts(facts, messages.width)]
    if tally.last_error:
        parts.append(Text(escape_name(f"last error: {tally.last_error}").plain, style="red"))
    for notice in run.notices.messages:  # wrapped, not cut: the reason may be at the end
        parts.append(Text(escape_text(notice).plain[:300], style="yellow"))
    if run.stop.requested:
        parts.append(Text("Ctrl-C again stops at once.", style="yellow"))
    return Group(*parts)


def _wrap_facts(facts: Sequence[Text], width: int) -> Text:
    """Join facts into lines of at most ``width`` columns, without breaking a fact."""
    lines: list[Text] = []
    for fact in facts:
        if lines and lines[-1].cell_len + len(_FACT_SEPARATOR) + fact.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], _FACT_SEPARATOR, fact)
        else:
            lines.append(fact)
    return Text("\n").join(lines)


def _run_facts(run: _WatchedRun) -> Iterator[tuple[str, str]]:
    tally = run.tally
    yield "samples", _format_samples(tally)
    yield "per s", f"{tally.per_second:,.1f}"
    yield from _rates(tally)
    yield "calls", _format_calls(tally)
    yield "tokens", f"{tally.usage.input_tokens:,} in, {tally.usage.output_tokens:,} out"
    paid = format_usd(tally.cost_usd if tally.cost_known else None)
    if tally.paid_before and tally.cost_known:
        paid += f" in this session, {format_usd(tally.paid_usd)} in all"
    yield "paid", paid
    if tally.budget is not None:  # spent by all runs that share the budget
        yield (
            "budget",
            f"{format_exact_usd(tally.budget.spent_usd)} of {format_usd(tally.budget.usd)}",
        )
    outcomes = [f"{count:,} {outcome}" for outcome, count in sorted(tally.outcomes.items())]
    yield "outcomes", ", ".join(outcomes) or "none yet"
    if run.stop.requested:
        yield "stopping", "after the calls in flight"
    elif tally.eta_s is not None:
        yield "left", str(timedelta(seconds=round(max(tally.eta_s, run.notices.pause_s))))
