"""Line figures: gains from feedback rounds and further samples, and a judge's calibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from harness.analysis.breakdown import any_of_first, of_round, rates
from harness.analysis.clustered import Statistic, clustered_mean
from harness.analysis.judge_validation import JudgeValidation
from harness.report.figures.figure import Figure
from harness.report.figures.groups import UNITS
from harness.report.figures.names import counted, interval, number
from harness.report.figures.runs import UNIT, Drawn, Runs, Sheet, alt, bounds, known, specification
from harness.report.runs import ReportedRun

EACH = "in this round"
ANY = "in this or an earlier round"
AT = "any of k (pass@k)"
HAT = "all of k (pass^k)"
MOST_TOGETHER = 2
"""Runs whose two lines each can be told apart in one figure."""
BANDS = "Bands: 95% intervals, not adjusted."

_HEIGHT = 240
_TICKS = 10
_EVERY = 20
_FURTHER = 20


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line. ``kind`` is the line's dash."""

    kind: str
    run: str
    at: int
    of: Statistic


def line_chart(
    points: Sequence[Point], kinds: Sequence[str], titles: tuple[str, str, str], runs: Runs
) -> tuple[dict[str, Any], Sheet]:
    """Draw lines with bands.

    Args:
        points: The points of all lines.
        kinds: Kinds of lines; the first is solid.
        titles: Titles of the horizontal axis, of the values, and of what n counts.
        runs: For colours and shapes.
    """
    at, value, of = titles
    sheet = Sheet("line", "run", at, value, "s.e.", "95% interval", of)
    for one in points:
        mean, stderr, between = one.of.mean, one.of.stderr, interval(one.of.ci95)
        texts = [f"{one.at:,}", number(mean), number(stderr), between, f"{one.of.n:,}"]
        sheet.add(
            [one.kind, one.run, *texts],
            kind=one.kind,
            run=one.run,
            key=runs.keys[one.run],
            at=one.at,
            value=mean,
            **bounds(one.of.ci95),
        )
    present = {one.run for one in points}
    last = max((one.at for one in points), default=1)
    ticks = list(range(1, last + 1, ceil(last / _TICKS)))
    axis = alt.Axis(title=at, format="d", values=ticks, grid=False)
    base = sheet.base().encode(
        x=alt.X("at:Q", axis=axis, scale=alt.Scale(domain=[1, last], nice=False, padding=6)),
        color=runs.colour(present),
        detail=["kind:N", "run:N"],
    )
    dash = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=list(kinds), range=[[1, 0], [5, 3], [2, 2]][: len(kinds)]),
        legend=alt.Legend(title=None, symbolType="stroke", symbolSize=300) if kinds[1:] else None,
    )
    y = alt.Y("value:Q", scale=UNIT, axis=alt.Axis(title=value, tickCount=5))
    band = known(base, "low").mark_area(opacity=0.13)
    mark = base.mark_point(filled=True, size=45, opacity=1)
    chart = specification(
        band.encode(y=alt.Y("low:Q", scale=UNIT), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash),
        mark.encode(y=y, shape=runs.shape(present)),
        height=_HEIGHT,
    )
    return chart, sheet


def round_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the rate of each round and of all rounds so far; in two figures if there are many
    runs.
    """
    several = [run for run in runs.every if run.last_round > 1]
    points = [point for run in several for point in _round_points(runs, run)]
    if not points:
        return
    stopping = [runs.shown(run) for run in several if _stops(run)]
    figures: list[tuple[str, str, tuple[str, ...]]] = [
        ("rounds_any", "Passed in this or an earlier round", (ANY,)),
        ("rounds_each", "Passed in each round", (EACH,)),
    ]
    if len(several) <= MOST_TOGETHER:
        figures = [("rounds", "Passed by round", (ANY, EACH))]
    for name, title, kinds in figures:
        chosen = [point for point in points if point.kind in kinds]
        caption = _round_caption(kinds, stopping, [point for point in points if point.at == 1])
        chart, sheet = line_chart(chosen, kinds, ("round", "pass rate", "samples"), runs)
        yield runs.figure(Drawn(name, title, caption, chart, sheet), map(runs.shown, several))


def _round_points(runs: Runs, run: ReportedRun) -> Iterator[Point]:
    for kind, chosen in ((ANY, any_of_first), (EACH, of_round)):
        for at in range(1, run.last_round + 1):
            part = rates(chosen(run.attempts, at)).get(())
            if part is not None and part.mean is not None:
                yield Point(kind, runs.shown(run), at, part)


def _stops(run: ReportedRun) -> bool:
    """Return whether later rounds have fewer samples, because passed ones were not asked again."""
    said = run.settings.get("rounds.stop_on_pass")
    if isinstance(said, bool):
        return said
    n = run.metrics.rounds.n
    return any(count < n[min(n)] for count in n.values())


def _round_caption(kinds: Sequence[str], stopping: Sequence[str], first: Sequence[Point]) -> str:
    sentences = []
    if ANY in kinds:
        sentences.append(
            "Solid: samples that passed in the first k rounds; one that stopped on its pass "
            "stays passed."
        )
    if EACH in kinds:
        line = "Dashed" if ANY in kinds else "Solid"
        sentences.append(f"{line}: pass rate of that round's answers alone.")
        if stopping:
            sentences.append(
                f"Samples of {', '.join(stopping)} stop when they pass: from round 2 on, that "
                "line covers those that had failed so far and is not comparable with round 1."
            )
    n = {point.run: point.of.n for point in first}
    sentences.append(f"{BANDS} Of round 1: {counted(n, 'samples')} {UNITS}")
    return " ".join(sentences)


def sample_figures(runs: Runs) -> Iterator[Figure]:
    """Draw pass@k and pass^k of the runs that have several samples of every instance."""
    several = [run for run in runs.every if max(run.metrics.pass_at_k, default=1) > 1]
    if not several:
        return
    points = [point for run in several for point in _sample_points(runs, run)]
    n = {runs.shown(run): run.metrics.pass_at_k_instances for run in several}
    later = " of last rounds" if runs.several_rounds else ""
    title = "any of k samples passes (pass@k), and all of them (pass^k)"
    caption = (
        f"Solid: the chance that any of k samples{later} passes, dashed: that all do; unbiased, "
        f"mean over instances. {BANDS} {counted(n, 'instances')} {UNITS}"
    )
    chart, sheet = line_chart(points, (AT, HAT), ("k", "chance", "instances"), runs)
    drawn = Drawn("pass_at_k", runs.titled(title, "last rounds"), caption, chart, sheet)
    yield runs.figure(drawn, map(runs.shown, several))


def chosen_k(largest: int) -> list[int]:
    """Choose which k to draw: all small ones, then increasingly few.

    >>> chosen_k(3)
    [1, 2, 3]
    """
    steps = [round(_EVERY * (largest / _EVERY) ** (i / _FURTHER)) for i in range(1, _FURTHER + 1)]
    first = range(1, min(largest, _EVERY) + 1)
    return sorted({*first, *(k for k in steps if _EVERY < k <= largest)})


def _sample_points(runs: Runs, run: ReportedRun) -> Iterator[Point]:
    metrics = run.metrics
    lines: tuple[tuple[str, Mapping[int, float], Mapping[int, float | None]], ...] = (
        (AT, metrics.pass_at_k, metrics.pass_at_k_stderr),
        (HAT, metrics.pass_hat_k, metrics.pass_hat_k_stderr),
    )
    # How many instances have a judged sample, in which clusters: the units of the intervals.
    last = run.attempts.last_rounds()
    judged = np.unique(last.instance[last.judged])
    of = clustered_mean(np.zeros(len(judged)), run.attempts.instances.cluster[judged])
    for kind, means, stderrs in lines:
        for k in chosen_k(max(means, default=0)):
            found = replace(of, mean=means[k], stderr=stderrs.get(k))
            statistic = Statistic(
                mean=found.mean,
                stderr=found.stderr,
                ci95=found.ci95,
                n=found.n,
                n_clusters=found.n_clusters,
            )
            yield Point(kind, runs.shown(run), k, statistic)


def calibration_figure(found: JudgeValidation) -> Figure | None:
    """Draw a judge's calibration curve, or return None if the judge's probabilities are unknown.

    DeGroot and Fienberg 1983, "The Comparison and Evaluation of Forecasters". Bins without criteria
    have no point.
    """
    bins = [one for one in found.calibration.bins if one.n]
    if not bins:
        return None
    says, agrees = "the judge's probability of yes", "the reference says yes"
    sheet = Sheet("probability of yes", "mean", "reference says yes", "95% interval", "n")
    for one in bins:
        texts = [number(one.mean_probability), number(one.yes.mean), interval(one.yes.ci95)]
        sheet.add(
            [f"{one.low:g}-{one.high:g}", *texts, f"{one.n:,}"],
            probability=one.mean_probability,
            yes=one.yes.mean,
            n=one.n,
            **bounds(one.yes.ci95),
        )
    unit = alt.Scale(domain=[0, 1], nice=False)
    ticks = [tick / 5 for tick in range(6)]
    x = alt.X("probability:Q", scale=unit, axis=alt.Axis(title=says, values=ticks, grid=False))
    y_axis = alt.Axis(title=agrees, values=ticks)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=unit, axis=y_axis)

    diagonal = alt.Chart(alt.InlineData(values=[{"probability": at, "yes": at} for at in (0, 1)]))
    base = sheet.base().encode(x=x)
    size = alt.Size("n:Q", scale=alt.Scale(range=[30, 300], zero=True), legend=None)
    marks = "".join(f" [{mark}]" for mark in found.marks)
    return Figure(
        name="calibration",
        title=f"Calibration of {found.judge} against {found.reference}{marks}",
        caption=(
            "A point: the criteria with similar probabilities of yes, its size how many; at their "
            "mean probability, the share for which the reference says yes, with its 95% interval. "
            "On the dashed line the probabilities are right; below it the judge says yes too "
            "readily."
        ),
        chart=specification(
            diagonal.mark_line(strokeDash=[4, 4], opacity=0.5).encode(x=x, y=y("yes")),
            known(base, "low").mark_rule(strokeWidth=1.5).encode(y=y("low"), y2="high:Q"),
            base.mark_point(filled=True, shape="circle", opacity=1).encode(y=y("yes"), size=size),
            height=320,
        ),
        headings=sheet.headings,
        rows=tuple(sheet.rows),
    )
