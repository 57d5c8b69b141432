"""What feedback brings: the rate of each round, and of all rounds so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.breakdown import any_of_first, of_round, rates
from harness.report.figure import Figure
from harness.report.figures.curves import BANDS, Point, chart, table
from harness.report.figures.names import counted
from harness.report.figures.rates import units
from harness.report.figures.runs import Runs, last_round
from harness.report.reported_run import ReportedRun

EACH = "in this round"
ANY = "in this or an earlier round"

MOST_TOGETHER = 2
"""Runs whose two lines each can be told apart in one picture."""


def round_figures(runs: Runs) -> Iterator[Figure]:
    """One picture of both lines, or two of more runs; none where no run has several rounds."""
    several = [run for run in runs.every if last_round(run) > 1]
    points = [point for run in several for point in _points(runs, run)]
    if not points:
        return
    stopping = [runs.shown(run) for run in several if _stops(run)]
    together = len(several) <= MOST_TOGETHER
    for name, title, kinds in (
        [("rounds", "Passed by round", (ANY, EACH))]
        if together
        else [
            ("rounds_any", "Passed in this or an earlier round", (ANY,)),
            ("rounds_each", "Passed in each round", (EACH,)),
        ]
    ):
        chosen = [point for point in points if point.kind in kinds]
        yield runs.figure(
            name,
            title,
            _caption(kinds, stopping, [point for point in points if point.at == 1]),
            chart(chosen, kinds, "round", "pass rate", "samples", runs),
            *table(chosen, "round", "pass rate", "samples"),
            present=[runs.shown(run) for run in several],
        )


def _points(runs: Runs, run: ReportedRun) -> Iterator[Point]:
    for kind, chosen in ((ANY, any_of_first), (EACH, of_round)):
        for number in range(1, last_round(run) + 1):
            part = rates(chosen(run.attempts, number)).get(())
            if part is not None and part.mean is not None:
                yield Point(
                    kind, runs.shown(run), number, part.mean, part.stderr, part.ci95, part.n
                )


def _stops(run: ReportedRun) -> bool:
    """Whether later rounds are over fewer samples: what passed was not asked again."""
    said = run.settings.get("rounds.stop_on_pass")
    if isinstance(said, bool):
        return said
    n = run.metrics.rounds.n
    return any(count < n[min(n)] for count in n.values())


def _caption(kinds: Sequence[str], stopping: Sequence[str], first: Sequence[Point]) -> str:
    told = []
    if ANY in kinds:
        told.append(
            "Solid: samples that passed in the first k rounds; one that stopped on its pass "
            "stays passed."
        )
    if EACH in kinds:
        line = "Dashed" if ANY in kinds else "Solid"
        told.append(f"{line}: pass rate of that round's answers alone.")
        if stopping:
            told.append(
                f"Samples of {', '.join(stopping)} stop on their pass: from round 2 on, that "
                "line is over those that had failed so far, and is not comparable with round 1."
            )
    n = {point.run: point.n for point in first}
    told.append(f"{BANDS} Of round 1: {counted(n, 'samples')} {units()}")
    return " ".join(told)
