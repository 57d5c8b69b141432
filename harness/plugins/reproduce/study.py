"""Compares a paper's tables and figures, cell by cell, with values computed from runs.

A study is a YAML file (docs/reproduce.md) that names run files and lists exhibits, which are the
paper's tables and figures by number. The exhibit, the row and the column of a cell together define
its `Lookup`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from msgspec import Struct, structs
from pydantic import AliasChoices, Field

from harness.analysis.breakdown import (
    best_of_first_rounds,
    group_codes,
    mean_by_group,
    rows_for_score,
    select_round,
    weighted_mean_by_group,
)
from harness.analysis.clustered import clustered_mean, to_sample_statistic
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.config.validation import Section, validate
from harness.config.yaml_text import read_mapping
from harness.declarations import declarations
from harness.errors import ConfigError, suggest_name
from harness.plugins.comparisons.comparable import Run, has_score
from harness.plugins.comparisons.table_figures import macro_f1
from harness.store.columns import AttemptTable

Verdict = Literal["equal", "within", "outside", "differs", "not comparable"]
"""How a reference value compares with ours.

``equal``: the values agree in all digits of the reference value. ``within``: the reference value is
in our 95% interval. ``outside``: it is not. ``differs``: both values are computed from the same
recorded answers, but they are not equal. ``not comparable``: our value is missing, or differs and
has no interval, or the run's answers are not comparable with the reference's.
"""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

REFERENCES = {"paper": "in the paper", "official": "official code"}
"""What a cell is compared with, and the heading of each in tables.

``paper``: the number printed in the paper. ``official``: the result of the authors' code, for the
recorded answers or, if the study has none, for the authors' own answers.
"""

REPLAY = "replay"  # the backend of runs on recorded answers

_FORM = "It needs 'title:', 'source:', 'runs:' and 'exhibits:'."


class Lookup(Section):
    """The rule for computing a cell's value: the run, the samples, the score and the mean."""

    run: str = Field("", description="A name under runs, or RUN.VARIANT; {row} is the row's name.")
    model: str = Field("", description="The model of the reference value, if not that of the run.")
    score: str = Field(PASS_RATE, description="A score, pass_rate, pass@K, pass^K or any@K.")
    weight: str = Field("", description="A score that weights the mean, such as a number of items.")
    f1_of: str = Field("", description="For a Macro-F1 of the score: the label with the classes.")
    round: int | None = Field(None, description="Only samples that reach this round, as of it.")
    so_far: bool = Field(False, description="Count a sample as passed if it passed by this round.")
    group: dict[str, str] = Field({}, description="Only samples of these groups, by label.")
    without: dict[str, str] = Field({}, description="No samples of these groups, by label.")
    mean_over: str = Field("", description="A label whose groups' means are averaged.")


@dataclass(frozen=True, slots=True)
class ExhibitCell:
    """A cell of an exhibit: what to look up, and the reference values, if there are any."""

    row: str
    column: str
    lookup: Lookup
    paper: float | None
    official: float | None


class StudyRun(Section):
    """A run of a study: a run file that replays answers, one that asks a model, or both."""

    model: str = Field("", description="The model whose values were published.")
    needs: dict[str, Any] = Field({}, description="Keys of the run file, and the paper's values.")
    recorded: str = Field("", description="The run file that replays recorded answers.")
    live: str = Field("", description="The run file that asks a model.")
    offline: list[str] = Field([], description="Overrides of live for a simulated model.")


class Exhibit(Section):
    """A table or figure of the paper. A cell's `Lookup` merges `of`, the cell's row and column."""

    name: str = Field(description="Its number in the paper, such as Figure 7b, or another name.")
    shows: str = Field(description="What it shows, in a few words.")
    source: str = Field("", description="Where the values of official are from.")
    why: str = Field("", description="Why our values may differ from the reference values.")
    unit: Literal["fraction", "percent", "count"] = "fraction"
    digits: int = Field(4, ge=0, le=10, description="Decimals of the values of official.")
    paper_digits: int | None = Field(
        None, ge=0, le=10, description="Decimals of the values of paper, by default digits."
    )
    of: dict[str, Any] = Field({}, description="The parts of a lookup that all cells share.")
    by: str = Field("", description="The label whose groups are the rows.")
    rows: dict[str, dict[str, Any]] = Field({}, description="What each row adds, unless by is set.")
    columns: dict[str, dict[str, Any]] = Field({}, description="By default one column, value.")
    paper: dict[str, list[float | None]] = Field(
        {},
        # 'published' is the name of this key in studies written for earlier versions.
        validation_alias=AliasChoices("paper", "published"),
        description="Numbers printed in the paper. By row, a value for each column; null or an "
        "empty list if there is none.",
    )
    official: dict[str, list[float | None]] = Field(
        {}, description="Results of the authors' code, in the same form."
    )
    not_comparable: str = Field("", description="Why no cell can be compared.")

    @property
    def row_names(self) -> list[str]:
        """The names of the exhibit's rows."""
        return [*dict.fromkeys([*self.official, *self.paper])]

    @property
    def column_names(self) -> list[str]:
        """The names of the exhibit's columns."""
        return [*self.columns] or ["value"]

    def decimals(self, reference: str) -> int:
        """Return the number of decimals of a reference's values."""
        if reference == "paper" and self.paper_digits is not None:
            return self.paper_digits
        return self.digits

    def cells(self) -> Iterator[ExhibitCell]:
        """Yield the exhibit's cells, row by row."""
        if not self.row_names:
            problem = f"{self.name} has no rows."
            raise ConfigError(problem, "List them under 'paper:' or 'official:'.")
        columns = self.columns or {"value": {}}
        for row in self.row_names:
            if self.rows and row not in self.rows:
                raise ConfigError(
                    f"{self.name}: {row!r} is not in rows.", suggest_name(row, self.rows)
                )
            part = self.rows.get(row, {})
            if self.by:
                part = {"group": {self.by: row}}
            paper = self._values(row, "paper")
            official = self._values(row, "official")
            for place, (column, other) in enumerate(columns.items()):
                tree = {**self.of, **part, **other}
                for key in ("group", "without"):
                    tree[key] = {}
                    for layer in (self.of, part, other):
                        tree[key] |= layer.get(key, {})
                tree["run"] = str(tree.get("run", "")).replace("{row}", row)
                lookup = validate(Lookup, tree, f"{self.name}, {row}, {column}")
                yield ExhibitCell(row, column, lookup, paper[place], official[place])

    def _values(self, row: str, reference: str) -> list[float | None]:
        values = getattr(self, reference).get(row) or [None] * len(self.column_names)
        if len(values) != len(self.column_names):
            problem = f"{self.name}: the row {row!r} of {reference} has {len(values)} values."
            raise ConfigError(problem, f"Write one per column: {', '.join(self.column_names)}.")
        return values


class Study(Section):
    """A paper's values, and the runs that reproduce them."""

    title: str = Field(description="The paper's title.")
    source: str = Field(description="Authors, year, and where it appeared.")
    notes: list[str] = Field([], description="What a reader should know about the comparison.")
    runs: dict[str, StudyRun] = Field(description="The run files, by names of your choice.")
    exhibits: list[Exhibit] = Field(description="The tables and figures, in the paper's order.")


class ReferenceValue(Struct, frozen=True):
    """A reference value, in the exhibit's unit, and how it compares with ours."""

    value: float
    verdict: Verdict
    why: str = ""  # why it is not comparable, unless the finding's `why` says so


class Finding(Struct, frozen=True, kw_only=True):
    """The value computed from a run for a cell, and the reference values that the cell has."""

    exhibit: str
    row: str
    column: str
    run: str
    ours: float | None = None  # in the exhibit's unit
    ci95: tuple[float, float] | None = None
    n: int = 0
    paper: ReferenceValue | None = None
    official: ReferenceValue | None = None
    why: str = ""  # why our value is not comparable with any other

    def comparisons(self) -> Iterator[tuple[str, ReferenceValue]]:
        """Yield the name of each reference (see `REFERENCES`) that has a value, and the verdict."""
        for reference in REFERENCES:
            comparison: ReferenceValue | None = getattr(self, reference)
            if comparison is not None:
                yield reference, comparison


def shipped_studies() -> dict[str, Path]:
    """Return the paths of the studies that installed plug-ins bring, by the plug-ins' names."""
    studies = {}
    for declaration in declarations():
        if declaration.plugin.study:
            studies[declaration.name] = declaration.file_path(declaration.plugin.study)
    return studies


def find_study(name: str) -> tuple[str, Path]:
    """Return a study's name and path.

    Args:
        name: The name of a plug-in that brings a study, or the path of a study.

    Raises:
        ConfigError: If there is no such study.
    """
    path = Path(name)
    if path.is_file():
        return path.stem, path
    studies = shipped_studies()
    if name not in studies:
        raise ConfigError(f"There is no study {name!r}.", suggest_name(name, studies))
    return name, studies[name]


def read_study(path: Path) -> Study:
    """Read a study from its YAML file."""
    study = validate(Study, read_mapping(path, "study", _FORM), str(path))
    for exhibit in study.exhibits:
        for cell in exhibit.cells():
            run = cell.lookup.run
            if run.partition(".")[0] not in study.runs:
                problem = f"{path}: {exhibit.name} names the run {run!r}."
                raise ConfigError(problem, suggest_name(run, study.runs))
    return study


def findings(study: Study, runs: Mapping[str, Run]) -> list[Finding]:
    """Compare each cell of a study with its value in ``runs``, keyed by RUN or RUN.VARIANT."""
    all_findings = []
    for exhibit in study.exhibits:
        for cell in exhibit.cells():
            all_findings.append(_finding(study, exhibit, cell, runs))
    return all_findings


def _finding(study: Study, exhibit: Exhibit, cell: ExhibitCell, runs: Mapping[str, Run]) -> Finding:
    lookup = cell.lookup
    run = runs.get(lookup.run)
    source = study.runs[lookup.run.partition(".")[0]]
    if run is not None and lookup.model not in ("", run[0].metrics.model):
        run = None
    statistic = SampleStatistic() if run is None else look_up(run[1], lookup)
    scale = {"fraction": 1.0, "percent": 100.0, "count": float(statistic.n)}[exhibit.unit]
    ours = None if statistic.mean is None else statistic.mean * scale
    ci95 = None
    if statistic.ci95 is not None:
        ci95 = statistic.ci95[0] * scale, statistic.ci95[1] * scale
    why = _incomparable(run, source, exhibit.not_comparable)
    if not why and ours is None:
        why = "no value in the run"
    finding = Finding(
        exhibit=exhibit.name,
        row=cell.row,
        column=cell.column,
        run=lookup.run,
        ours=ours,
        ci95=ci95,
        n=statistic.n,
        why=why,
    )
    replayed = run is not None and run[0].settings.get("model.backend") == REPLAY
    return structs.replace(
        finding,
        paper=_compared(finding, cell.paper, exhibit.decimals("paper")),
        official=_compared_with_code(finding, cell.official, exhibit.digits, source, replayed),
    )


def _compared(finding: Finding, value: float | None, digits: int) -> ReferenceValue | None:
    """Compare our value with a value of other answers, or of the same ones."""
    if value is None:
        return None
    if finding.why or finding.ours is None:
        return ReferenceValue(value, "not comparable")
    if _equal(finding.ours, value, digits):
        return ReferenceValue(value, "equal")
    if finding.ci95 is None:
        return ReferenceValue(value, "not comparable", "our value differs and has no 95% interval")
    lower, upper = finding.ci95
    if lower <= value <= upper:
        return ReferenceValue(value, "within")
    return ReferenceValue(value, "outside")


def _compared_with_code(
    finding: Finding, value: float | None, digits: int, source: StudyRun, replayed: bool
) -> ReferenceValue | None:
    """Compare our value with that of the authors' code.

    If there are recorded answers, both values must be computed from them: no interval applies.
    """
    if value is None or finding.why or finding.ours is None or not source.recorded:
        return _compared(finding, value, digits)
    if not replayed:
        why = "the official code scored the recorded answers"
        return ReferenceValue(value, "not comparable", why)
    if _equal(finding.ours, value, digits):
        return ReferenceValue(value, "equal")
    return ReferenceValue(value, "differs")


def _equal(ours: float, value: float, digits: int) -> bool:
    return abs(ours - value) <= 0.5 * 10.0**-digits * (1 + 1e-9)


def _incomparable(run: Run | None, source: StudyRun, known: str) -> str:
    """Return why a run cannot be compared with the authors' run, or "" if it can."""
    if run is None:
        return "not run"
    metrics = run[0].metrics
    if metrics.simulated:
        return "simulated"
    if known:
        return known
    if source.model and metrics.model != source.model:
        model = metrics.model or "an unnamed model"
        return f"answers of {model}; the authors' are those of {source.model}"
    settings = dict(run[0].settings)
    for value in run[0].settings.values():  # judges and panels have their own mappings
        if isinstance(value, dict):
            settings |= value
    for key, value in source.needs.items():
        if settings.get(key) != value:
            return f"{key} is {settings.get(key)}; for the authors' values it is {value}"
    if not metrics.complete:
        return f"incomplete: {metrics.progress}"
    return ""


def look_up(attempts: AttemptTable, lookup: Lookup) -> SampleStatistic:
    """Compute a lookup's statistic, whose mean is None if no sample has a value."""
    if lookup.so_far:
        samples = best_of_first_rounds(attempts, lookup.round or int(attempts.round.max(initial=1)))
    elif lookup.round is None:
        samples = attempts.last_rounds()
    else:
        samples = select_round(attempts, lookup.round)
    if not has_score(attempts, lookup.score):
        return SampleStatistic()
    samples = _without(rows_for_score(samples, lookup.score), lookup.without)
    labels = list(lookup.group)
    if lookup.mean_over:
        labels.append(lookup.mean_over)
    if lookup.f1_of:
        statistics = macro_f1(samples, lookup.score, lookup.f1_of, *labels)
    elif lookup.weight:
        statistics = weighted_mean_by_group(samples, lookup.score, lookup.weight, *labels)
    else:
        statistics = mean_by_group(samples, lookup.score, *labels)
    chosen = tuple(lookup.group.values())
    if not lookup.mean_over:
        return statistics.get(chosen, SampleStatistic())
    in_group = [statistic for groups, statistic in statistics.items() if groups[:-1] == chosen]
    means = [statistic.mean for statistic in in_group if statistic.mean is not None]
    n = len(means)
    estimate = clustered_mean(np.array(means), np.arange(n))
    return to_sample_statistic(estimate.to_mean_statistic(0.0, 1.0), n)


def _without(samples: AttemptTable, groups: Mapping[str, str]) -> AttemptTable:
    """Return the samples that are in none of the groups, which are given by label."""
    for label, group in groups.items():
        codes, names = group_codes(samples.instances.groupings, (label,))
        if (group,) in names:
            code = codes[samples.instances.grouping[samples.instance]]
            samples = samples.take(code != names.index((group,)))
    return samples
