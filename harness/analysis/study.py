"""Compares a paper's tables and figures, cell by cell, with values computed from runs.

A study is a YAML file (docs/reproduce.md) that names run files and lists exhibits, which are the
paper's tables and figures by number. The exhibit, the row and the column of a cell together define
its `Lookup`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from msgspec import Struct
from pydantic import Field

from harness.analysis.breakdown import any_of_first, has_score, of_round, scored, values_by
from harness.analysis.clustered import clustered_mean
from harness.analysis.comparable import Run
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.analysis.paper_figures import macro_f1, weighted_means
from harness.config.loading import read
from harness.config.validation import Section, validated
from harness.errors import ConfigError, nearest
from harness.store.columns import AttemptTable

Verdict = Literal["equal", "within", "outside", "not comparable"]
"""How a published value compares with ours.

``equal``: the values agree in all published digits. ``within``: the published value is in our 95%
interval. ``outside``: it is not. ``not comparable``: a value is missing, the values differ and ours
has no interval, or the run's answers are not comparable with those in the paper.
"""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_FORM = "It needs 'title:', 'source:', 'runs:' and 'exhibits:'."


class Lookup(Section):
    """The rule for computing a cell's value: the run, the samples, the score and the mean."""

    run: str = Field("", description="A name under runs, or RUN.VARIANT; {row} is the row's name.")
    model: str = Field("", description="The model of the published value, if not that of the run.")
    score: str = Field(PASS_RATE, description="A score, pass_rate, pass@K, pass^K or any@K.")
    weight: str = Field("", description="A score that weights the mean, such as a number of items.")
    f1_of: str = Field("", description="For a Macro-F1 of the score: the label with the classes.")
    round: int | None = Field(None, description="Only samples that reach this round, as of it.")
    so_far: bool = Field(False, description="Count a sample as passed if it passed by this round.")
    group: dict[str, str] = Field({}, description="Only samples of these groups, by label.")
    mean_over: str = Field("", description="A label whose groups' means are averaged.")


Cell = tuple[str, str, Lookup, float | None]  # row, column, what to look up, published value


class StudyRun(Section):
    """A run of a study: a run file that replays answers, one that asks a model, or both."""

    model: str = Field("", description="The model whose values were published.")
    needs: dict[str, Any] = Field({}, description="Keys of the run file, and the paper's values.")
    recorded: str = Field("", description="The run file that replays recorded answers.")
    live: str = Field("", description="The run file that asks a model.")
    offline: list[str] = Field([], description="Overrides of live for a simulated model.")


class Exhibit(Section):
    """A table or figure of the paper. A cell's `Lookup` merges `of`, the cell's row and column."""

    name: str = Field(description="Its number, such as Figure 7b.")
    shows: str = Field(description="What it shows, in a few words.")
    source: str = Field("", description="Who published the values, if not the paper.")
    unit: Literal["fraction", "percent", "count"] = "fraction"
    digits: int = Field(4, ge=0, le=10, description="Decimals of the published values.")
    of: dict[str, Any] = Field({}, description="The parts of a lookup that all cells share.")
    by: str = Field("", description="The label whose groups are the rows.")
    rows: dict[str, dict[str, Any]] = Field({}, description="What each row adds, unless by is set.")
    columns: dict[str, dict[str, Any]] = Field({}, description="By default one column, value.")
    published: dict[str, list[float | None]] = Field(
        description="By row, a value for each column; null or an empty list if there is none."
    )
    not_comparable: str = Field("", description="Why no cell can be compared.")

    def cells(self) -> Iterator[Cell]:
        """Yield the row, column, lookup and published value (or None) of each cell."""
        columns = self.columns or {"value": {}}
        for row, published in self.published.items():
            values = published or [None] * len(columns)
            if len(values) != len(columns):
                problem = f"{self.name}: the row {row!r} has {len(values)} values."
                raise ConfigError(problem, f"Write one per column: {', '.join(columns)}.")
            if self.rows and row not in self.rows:
                raise ConfigError(f"{self.name}: {row!r} is not in rows.", nearest(row, self.rows))
            part = {"group": {self.by: row}} if self.by else self.rows.get(row, {})
            for (column, other), value in zip(columns.items(), values, strict=True):
                tree = {**self.of, **part, **other}
                tree["group"] = {
                    k: v for one in (self.of, part, other) for k, v in one.get("group", {}).items()
                }
                tree["run"] = str(tree.get("run", "")).replace("{row}", row)
                yield row, column, validated(Lookup, tree, f"{self.name}, {row}, {column}"), value


class Study(Section):
    """A paper's published values, and the runs that reproduce them."""

    title: str = Field(description="The paper's title.")
    source: str = Field(description="Authors, year, and where it appeared.")
    notes: list[str] = Field([], description="What a reader should know about the comparison.")
    runs: dict[str, StudyRun] = Field(description="The run files, by names of your choice.")
    exhibits: list[Exhibit] = Field(description="The tables and figures, in the paper's order.")


class Finding(Struct, frozen=True, kw_only=True):
    """A cell's published value, and the value computed from a run, both in the exhibit's unit."""

    exhibit: str
    row: str
    column: str
    run: str
    published: float | None
    ours: float | None = None
    ci95: tuple[float, float] | None = None
    n: int = 0
    verdict: Verdict
    why: str = ""  # why the cell is not comparable


def read_study(path: Path) -> Study:
    """Read a study from its YAML file."""
    study = validated(Study, read(path, "study", _FORM), str(path))
    for exhibit in study.exhibits:
        for _, _, lookup, _ in exhibit.cells():
            if lookup.run.partition(".")[0] not in study.runs:
                problem = f"{path}: {exhibit.name} names the run {lookup.run!r}."
                raise ConfigError(problem, nearest(lookup.run, study.runs))
    return study


def findings(study: Study, runs: Mapping[str, Run]) -> list[Finding]:
    """Compare each cell of a study with its value in ``runs``, keyed by RUN or RUN.VARIANT."""
    return [
        _finding(study, exhibit, cell, runs)
        for exhibit in study.exhibits
        for cell in exhibit.cells()
    ]


def _finding(study: Study, exhibit: Exhibit, cell: Cell, runs: Mapping[str, Run]) -> Finding:
    row, column, lookup, published = cell
    run, source = runs.get(lookup.run), study.runs[lookup.run.partition(".")[0]]
    if run is not None and lookup.model not in ("", run[0].metrics.model):
        run = None
    found = SampleStatistic() if run is None else look_up(run[1], lookup)
    scale = {"fraction": 1.0, "percent": 100.0, "count": float(found.n)}[exhibit.unit]
    ours = None if found.mean is None else found.mean * scale
    ci95 = None if found.ci95 is None else (found.ci95[0] * scale, found.ci95[1] * scale)
    why = _incomparable(run, source, exhibit.not_comparable)
    verdict: Verdict = "not comparable"
    if why or ours is None or published is None:
        why = why or ("no value in the run" if ours is None else "no published value")
    elif abs(ours - published) <= 0.5 * 10**-exhibit.digits * (1 + 1e-9):
        verdict = "equal"
    elif ci95 is None:
        why = "our value differs and has no 95% interval"
    else:
        verdict = "within" if ci95[0] <= published <= ci95[1] else "outside"
    return Finding(
        exhibit=exhibit.name,
        row=row,
        column=column,
        run=lookup.run,
        published=published,
        ours=ours,
        ci95=ci95,
        n=found.n,
        verdict=verdict,
        why=why,
    )


def _incomparable(run: Run | None, source: StudyRun, known: str) -> str:
    """Return why a run cannot be compared with the paper's run, or "" if it can."""
    if run is None:
        return "not run"
    metrics = run[0].metrics
    if metrics.simulated:
        return "simulated"
    if known:
        return known
    if source.model and metrics.model != source.model:
        return f"answers of {metrics.model}; the published ones are those of {source.model}"
    settings = dict(run[0].settings)
    for value in run[0].settings.values():  # judges and panels have their own mappings
        settings |= value if isinstance(value, dict) else {}
    for key, value in source.needs.items():
        if settings.get(key) != value:
            return f"{key} is {settings.get(key)}; for the published values it is {value}"
    return "" if metrics.complete else f"incomplete: {metrics.progress}"


def look_up(attempts: AttemptTable, lookup: Lookup) -> SampleStatistic:
    """Compute a lookup's statistic, whose mean is None if no sample has a value."""
    if lookup.so_far:
        samples = any_of_first(attempts, lookup.round or int(attempts.round.max(initial=1)))
    else:
        number = lookup.round
        samples = attempts.last_rounds() if number is None else of_round(attempts, number)
    if not has_score(attempts, lookup.score):
        return SampleStatistic()
    samples = scored(samples, lookup.score)
    labels = tuple(lookup.group)
    over = (*labels, lookup.mean_over) if lookup.mean_over else labels
    if lookup.f1_of:
        found = macro_f1(samples, lookup.score, lookup.f1_of, *over)
    elif lookup.weight:
        found = weighted_means(samples, lookup.score, lookup.weight, *over)
    else:
        found = values_by(samples, lookup.score, *over)
    chosen = tuple(lookup.group.values())
    if not lookup.mean_over:
        return found.get(chosen, SampleStatistic())
    groups = [one for key, one in found.items() if key[:-1] == chosen and one.mean is not None]
    means = np.array([one.mean for one in groups])
    estimate = clustered_mean(means, np.arange(len(means)))
    return estimate.over_samples(estimate.clipped_ci95(0.0, 1.0), len(groups))
