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
from typing import Self, TypeVar

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

PLAIN_SECONDS = 10.0  # between lines of progress if there is no terminal
NARROW = 60  # a terminal with fewer columns shows only the names and samples of runs
_GAP = "   "  # between two facts
BUSY = 0.9  # from this share of a core on, the CPU limits a run


class Display:
    """A display of the runs (titles by name). If not ``visible``, it only handles Ctrl-C."""

    def __init__(self, runs: Mapping[str, str], *, visible: bool = True) -> None:
        self.tallies: dict[str, Tally] = {}  # of the runs that have started
        self.interrupted = False  # by Ctrl-C
        self._runs = runs
        self._visible = visible
        self._stop: Callable[[], object] = lambda: None
        self._now: tuple[str, Tally, Stop, Notices] | None = None
        self._live: Live | None = None
        self._cpu = _Cpu()
        self._drawn: tuple[int, list[int]] = (0, [])  # columns of the terminal, and of each line

    def __enter__(self) -> Self:
        if self._visible and messages.is_terminal:
            self._live = Live(
                get_renderable=self._rendered,
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

    def of(self, runs: Mapping[str, str]) -> Self:
        """Set the runs to show, by name, with their titles. Return this display."""
        self._runs = runs
        return self

    def interrupt(self) -> None:
        """Stop the current run after the calls in flight. Thread-safe."""
        self.interrupted = True
        self._stop()

    @contextlib.contextmanager
    def watch(self, name: str, tally: Tally, stop: Stop, notices: Notices) -> Iterator[None]:
        """Show a run's progress within a ``with`` block. Notices remain visible afterwards.

        The first Ctrl-C stops the run after the calls in flight, the second one at once.
        """

        def notice(text: str) -> None:
            with contextlib.suppress(OSError):
                messages.print(Text(f"{name}: ") + escape_text(text), soft_wrap=True)

        self.tallies[name] = tally
        self._stop = partial(asyncio.get_running_loop().call_soon_threadsafe, stop.request)
        self._now = name, tally, stop, notices
        plain: AbstractContextManager[None] = contextlib.nullcontext()
        if self._visible and self._live is None:
            notices.on_status = notice  # immediately: logs are read from the end
            for text in notices.messages:  # from before, such as of opening the cache
                notice(text)
            plain = _plain_lines(name, tally, stop, notices, partial(_speed, notices, self._cpu))
        with _signals(self.interrupt), plain:
            try:
                yield
            finally:
                self._now = None
                if self._visible:
                    notices.on_status = notice

    def _rendered(self) -> RenderableType:
        now = self._now  # the run's own thread may change it, and the tallies
        tallies = self.tallies.copy()
        rows = Table.grid(padding=(0, 2, 0, 0))
        narrow = messages.width < NARROW
        rows.add_column(no_wrap=True, overflow="fold" if narrow else "ellipsis")
        for name, title in self._runs.items() if len(self._runs) > 1 else ():
            row = ["waiting"]
            if (tally := tallies.get(name)) is not None:
                row = [_samples(tally), _rates(tally)[-1][1], f"calls {_calls(tally)}"]
            rows.add_row(escape_name(title), *map(Text, row[:1] if narrow else row))
        content = Group(*([_table(*now, self._cpu)] if now else []), rows)
        if self._live:
            self._erase_wrapped()
            lines = messages.render_lines(content, pad=False)
            self._drawn = messages.width, [Segment.get_line_length(line) for line in lines]
        return content

    def _erase_wrapped(self) -> None:
        """Erase the rows, unknown to Rich, of lines that a narrowed terminal has wrapped."""
        width, lengths = self._drawn
        now = max(1, messages.width)
        more = sum(max(0, -(-length // now) - 1) for length in lengths) if now < width else 0
        up = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
        messages.control(Control(ControlType.CARRIAGE_RETURN, *(up * more)))


def exact_usd(cost: float) -> str:
    """Format an amount with at least four digits after the point, to compare it with a budget."""
    return format_usd(cost) if 0 < cost < 1 else f"${cost:,.4f}"


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at the first signal within the block, and cancel the task at any later one."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    actions = iter([stop])

    def signalled() -> None:
        next(actions, task.cancel)()

    watched = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # from a closing terminal; nohup ignores it
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        numbers.append(hangup)
    for number in numbers:
        # Some platforms have no handlers, and only a program's main thread may set them.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, signalled)
            watched.append(number)
    try:
        yield
    finally:
        for number in watched:
            loop.remove_signal_handler(number)


def _rates(tally: Tally) -> list[tuple[str, str]]:
    if tally.n_scored and not tally.judged_answers:
        mean = tally.score_sum / tally.n_scored
        return [(f"mean {escape_name(tally.score).plain}", f"{mean:.4g} of {tally.n_scored:,}")]
    rates = [("passed", tally.passed, tally.judged)]
    if tally.rounds > 1:
        first = ("first answers", tally.first_passed, tally.first_judged)
        rates = [first, ("last round", tally.passed, tally.judged)]
    texts = []
    for name, n, total in rates:
        texts.append((name, f"{format_percent(n, total)} of {total:,}" if total else "none yet"))
    return texts


def _samples(tally: Tally) -> str:
    return f"{tally.already + tally.finished:,}/{tally.already + tally.expected:,}"


def _calls(tally: Tally) -> str:
    return f"{tally.calls:,}" + (f" (+{tally.cached:,} cached)" if tally.cached else "")


class _Cpu:
    """A meter of this process's CPU use, as a share of one core."""

    def __init__(self) -> None:
        self._share = 0.0
        self._then = time.monotonic(), time.process_time()

    def share(self) -> float:
        then, cpu_then = self._then
        now = time.monotonic()
        if now - then >= 1:
            cpu_now = time.process_time()
            self._share = (cpu_now - cpu_then) / (now - then)
            self._then = now, cpu_now
        return self._share


def _speed(notices: Notices, cpu: _Cpu) -> Iterator[tuple[str, str]]:
    loads = [load() for load in notices.loads.values()]
    yield "in flight", f"{sum(load.in_flight for load in loads):,}"
    if failed := sum(load.failed for load in loads):
        refused = sum(load.rate_limited for load in loads)
        yield "retries", f"{failed:,}" + (f" ({refused:,} rate-limited)" if refused else "")
    reasons = [load.limited_by for load in loads if load.limited_by]
    if cpu.share() >= BUSY:
        reasons = ["this machine's CPU"]
    if reasons:
        yield "limited by", reasons[0]


@contextlib.contextmanager
def _plain_lines(
    name: str,
    tally: Tally,
    stop: Stop,
    notices: Notices,
    speed: Callable[[], Iterator[tuple[str, str]]],
) -> Iterator[None]:
    done = threading.Event()

    def line(*now: tuple[str, str]) -> None:
        facts = ", ".join(
            f"{label} {value}" for label, value in [*_facts(tally, stop, notices), *now]
        )
        with contextlib.suppress(OSError):  # a full disk or a closed pipe must not end the run
            messages.print(Text(f"{name}: {facts}"), soft_wrap=True)

    def lines() -> None:
        while not done.wait(PLAIN_SECONDS):
            line(*speed())

    thread = threading.Thread(target=lines, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if tally.attempts:
            line()


def _table(name: str, tally: Tally, stop: Stop, notices: Notices, cpu: _Cpu) -> RenderableType:
    bar = Table.grid(padding=(0, 1))
    done = tally.already + tally.done
    total = max(1, tally.already + tally.expected)
    width = max(10, min(30, messages.width - len(name) - 2))
    bar.add_row(escape_name(name), ProgressBar(total=total, completed=done, width=width))
    every = [*_facts(tally, stop, notices), *_speed(notices, cpu)]
    facts = [Text.assemble((f"{label} ", "dim"), value) for label, value in every]
    parts: list[RenderableType] = [bar, _filled(facts, messages.width)]
    if tally.last_error:
        parts.append(Text(escape_name(f"last error: {tally.last_error}").plain, style="red"))
    for notice in notices.messages:  # wrapped, not cut: the reason may be at the end
        parts.append(Text(escape_text(notice).plain[:300], style="yellow"))
    if stop.requested:
        parts.append(Text("Ctrl-C again stops at once.", style="yellow"))
    return Group(*parts)


def _filled(facts: Sequence[Text], width: int) -> Text:
    """Join facts into lines of at most ``width`` columns, without splitting any."""
    lines: list[Text] = []
    for fact in facts:
        if lines and lines[-1].cell_len + len(_GAP) + fact.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], _GAP, fact)
        else:
            lines.append(fact)
    return Text("\n").join(lines)


def _facts(tally: Tally, stop: Stop, notices: Notices) -> Iterator[tuple[str, str]]:
    yield "samples", _samples(tally)
    yield "per s", f"{tally.per_second:,.1f}"
    yield from _rates(tally)
    yield "calls", _calls(tally)
    yield "tokens", f"{tally.usage.input_tokens:,} in, {tally.usage.output_tokens:,} out"
    paid = format_usd(tally.cost_usd if tally.cost_known else None)
    if tally.paid_before and tally.cost_known:
        paid += f" in this session, {format_usd(tally.paid_usd)} in all"
    yield "paid", paid
    if tally.budget is not None:  # spent by all runs that share the budget
        yield "budget", f"{exact_usd(tally.budget.spent_usd)} of {format_usd(tally.budget.usd)}"
    outcomes = [f"{count:,} {outcome}" for outcome, count in sorted(tally.outcomes.items())]
    yield "outcomes", ", ".join(outcomes) or "none yet"
    if stop.requested:
        yield "stopping", "after the calls in flight"
    elif tally.eta_s is not None:
        yield "left", str(timedelta(seconds=round(max(tally.eta_s, notices.pause_s))))
