"""Heat maps of groups, of pairs of runs and of rankings; maps of texts.

A map of texts by t-SNE (van der Maaten and Hinton 2008) puts similar texts near each other, as
figure 2b of Lior et al. 2025 (arXiv 2503.06573).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.analysis.metrics import SampleStatistic
from harness.datasets.folder import read_jsonl
from harness.errors import ConfigError, DataInvalid, import_extra
from harness.plugins.comparisons.comparison_document import ShownUnit, score_name
from harness.plugins.comparisons.pair_matrix import InducedRankings, PairMatrix
from harness.plugins.report.figure import (
    DIVERGING,
    LIGHT_INK_BELOW,
    LIGHT_INK_BEYOND,
    NUMBER,
    RAMP,
    Figure,
    display_names,
    interval,
    number,
    on_axis,
    run_shapes,
    sample_sizes,
    slug,
    write_image,
)
from harness.plugins.report.figures import plot
from harness.plugins.report.figures.plot import Runs, Sheet
from harness.plugins.report.figures.rates import by_label, largest
from harness.report.text import escape_unprintable, format_p_value
from harness.store.columns import natural_sort_key

MOST_COLUMNS = 20  # maximum columns that stay readable on a small screen
MOST_OF_SECOND = 12  # maximum groups of the second label
MOST_OF_FIRST = 60  # maximum groups of the first label, if drawn against a second

Cells = Mapping[tuple[str, str, str], SampleStatistic | None]  # by row group, run, column group


def heat_map_figures(runs: Runs) -> Iterator[Figure]:
    """Draw heat maps by run and group, and by the groups of two labels."""
    measured_by_label = by_label(runs, partial(runs.measured, last=True))
    several = list(measured_by_label)
    if several and len(runs.every) > 1:
        measured = measured_by_label[several[0]]
        groups, only = largest(measured)
        names = display_names(groups)
        cells = {}
        for run_name, statistics in measured.items():
            for group, name in names.items():
                cells["", run_name, name] = statistics.get(group)
        yield _figure(runs, several[:1], cells, only)
    if len(several) > 1:
        yield from _by_two(runs, several[0], several[1])


def _by_two(runs: Runs, first: str, second: str) -> Iterator[Figure]:
    measured = {}
    keys: set[tuple[str, ...]] = set()
    for run in runs.every:
        statistics = runs.measured(run, first, second, last=True)
        if statistics:
            measured[runs.name_of(run)] = statistics
            keys.update(statistics)
    columns = sorted({column for column, _ in keys}, key=natural_sort_key)
    rows = sorted({row for _, row in keys}, key=natural_sort_key)
    if not (1 < len(columns) <= MOST_OF_FIRST and 1 < len(rows) <= MOST_OF_SECOND):
        return
    if len(keys) == max(len(columns), len(rows)):
        return  # one label merely refines the other
    column_names = display_names(columns)
    cells = {}
    for row, row_name in display_names(rows).items():
        for run_name, statistics in measured.items():
            for column, column_name in column_names.items():
                cells[row_name, run_name, column_name] = statistics.get((column, row))
    yield _figure(runs, [first, second], cells)


def _figure(runs: Runs, by: Sequence[str], cells: Cells, only: str = "") -> Figure:
    heading, *of_rows = map(escape_unprintable, by)
    in_rows = list(dict.fromkeys((group, run) for group, run, _ in cells))
    if not of_rows or len({run for _, run in in_rows}) > 1:
        of_rows.append("run")
    full_rows = []
    rows = []
    for group, run in in_rows:
        names = [group] if group else []
        brief = [*names]
        if "run" in of_rows:
            names.append(run)
            brief.append(runs.short[run])
        full_rows.append(", ".join(names))
        rows.append(", ".join(brief))
    full_names = dict(zip(in_rows, full_rows, strict=True))
    row_keys = dict(zip(in_rows, on_axis(rows), strict=True))
    columns = list(dict.fromkeys(name for *_, name in cells))
    column_keys = dict(zip(columns, on_axis(columns), strict=True))
    value = runs.value(plot.LAST_ROUNDS)
    sheet = Sheet(runs, ", ".join(of_rows), heading, value, "95% interval", "samples", "units")
    n: dict[str, int] = {}
    for (group, run, column), statistic in cells.items():
        part = statistic or SampleStatistic()
        n[run] = n.get(run, 0) + part.n
        texts = [full_names[group, run], column, number(part.mean, unit=runs.unit)]
        texts += [interval(part.ci95, unit=runs.unit), f"{part.n:,}", f"{part.n_clusters:,}"]
        place = {"row": row_keys[group, run], "column": column_keys[column]}
        sheet.add(run, texts, **place, value=part.mean)
    across = ("column", list(column_keys.values()))
    down = ("row", list(row_keys.values()))
    if len(columns) > max(MOST_COLUMNS, len(rows)):
        chart = _chart(sheet, value, down, across, unit=runs.unit)
    else:
        chart = _chart(sheet, value, across, down, unit=runs.unit)
    caption = (
        f"An uncoloured dash means no answers, not 0. {sample_sizes(n, 'samples')} "
        f"Each cell's n and 95% interval are in its tooltip and in the table. {only}".strip()
    )
    title = f"{value} by {', '.join([*of_rows[::-1], heading])}"
    return sheet.figure(f"heat_map_{'_'.join(map(slug, by))}", title, caption, chart)


def pair_figure(runs: Runs, matrix: PairMatrix) -> Figure:
    """Draw the difference between every two runs, as in WildIFEval's figures 7a, 13 and 14."""
    keys = []
    for matrix_row in matrix.rows:
        keys.append(runs.short[runs.names[matrix_row.run]])
    sheet = Sheet(runs, "run", "minus", "difference", "95% interval", "p", "p (Holm)")
    unit = runs.rates if matrix.verdicts else runs.unit
    scale = 1
    axis_title = "difference"
    if unit.percent:
        scale = 100
        axis_title = "difference, points"
    for pair in matrix.pairs:
        for row, column in ((pair.second, pair.first), (pair.first, pair.second)):
            run = matrix.rows[row].run
            baseline = matrix.rows[column].run
            comparison = matrix.pair(baseline, run)
            name = runs.names[run]
            baseline_name = runs.names[baseline]
            texts = [name, baseline_name, number(comparison.difference, True, unit)]
            texts.append(interval(comparison.ci95, True, unit))
            texts += [format_p_value(comparison.p_value), format_p_value(comparison.p_adjusted)]
            place = {"row": keys[row], "column": keys[column]}
            value = None
            if comparison.difference is not None:
                value = scale * comparison.difference
            sheet.add(name, texts, **place, value=value)
    caption = (
        "Paired over the instances that both runs have; the tooltip and the table give the 95% "
        "interval, p, and p adjusted by Holm's method: against the baseline over the runs compared "
        "with it, of other pairs over all pairs."
    )
    title = f"difference in {escape_unprintable(score_name(matrix.score))}, row minus column"
    chart = _chart(sheet, axis_title, ("column", keys), ("row", keys))
    return sheet.figure("pairs", title, caption, chart, "comparison")


def ranking_figure(runs: Runs, rankings: InducedRankings) -> Figure:
    """Draw tau-b for every pair of scorings of the runs, as in WildIFEval's figure 7b."""
    names = [escape_unprintable(score_name(scoring.name)) for scoring in rankings.scorings]
    keys = on_axis(names)
    sheet = Sheet(runs, "ranked by", "and by", "tau-b", "p", "runs")
    sheet.present.update(runs.names.values())
    for tau in rankings.taus:
        figures = [number(tau.tau_b, sign=True), format_p_value(tau.p_value), f"{tau.n_runs:,}"]
        for first, second in ((tau.second, tau.first), (tau.first, tau.second)):
            texts = [names[first], names[second], *figures]
            sheet.add("", texts, row=keys[first], column=keys[second], value=tau.tau_b)
    caption = (
        "Kendall's tau-b: 1 if two scorings order the runs alike, -1 if in reverse. With few runs, "
        "values far from 0 arise by chance; p is in the tooltip and the table."
    )
    title = f"similarity of the rankings of the {len(rankings.scorings[0].values)} runs"
    chart = _chart(sheet, "tau-b", ("column", keys), ("row", keys), domain=(-1.0, 1.0))
    return sheet.figure("rankings", title, caption, chart, "comparison")


def _chart(
    sheet: Sheet,
    title: str,
    across: tuple[str, list[str]],
    down: tuple[str, list[str]],
    *,
    unit: ShownUnit = NUMBER,
    domain: tuple[float, float] | None = None,
) -> dict[str, Any]:
    if domain is None:
        values = [point["value"] for point in sheet.data if point["value"] is not None]
        domain = (min(values, default=0.0), max(values, default=1.0))
    low, high = domain
    diverging = low < 0
    if diverging:
        high = max(-low, high)
        low = -high
    elif high <= 1:  # fractions
        low = 0.0
        high = 1.0
    if unit.percent:
        form = ".0%"
    elif not diverging and high <= 1:
        form = ".2~f"
    elif high >= 10:
        form = ".0f"
    else:
        form = ".2~g"
    pale = f"datum.value >= {low + LIGHT_INK_BELOW * (high - low)}"
    if diverging:
        pale = f"abs(datum.value) <= {LIGHT_INK_BEYOND * high}"
    fits = len(across[1]) <= MOST_COLUMNS
    return sheet.chart(
        "heat_map",
        title=title,
        across=across,
        down=down,
        domain=[low, high],
        colours=DIVERGING if diverging else RAMP,
        percent=unit.percent,
        numbers=form if fits else "",
        pale=pale,
    )


MIN_TEXTS = 5
MAX_TEXTS = 5_000  # t-SNE of more takes minutes, and the points hide each other
THREADS_FROM = 1_000  # texts
PERPLEXITY = 30.0
SEED = 0
REMEDY = 'Write {"text": ..., "embedding": [numbers]} on each line.'


class _Line(msgspec.Struct):
    text: str
    embedding: list[float]


def write_text_map(
    path: Path, task: str, texts: Mapping[str, str], label: str, embeddings: Path | None
) -> None:
    """Write a map that puts similar texts of a task near each other.

    Args:
        path: The file to write.
        task: The task's name.
        texts: The group of each text.
        label: What the groups are.
        embeddings: JSONL with the texts' embeddings, or None for TF-IDF.
    """
    positions = embedding_map(list(texts), embeddings)
    write_image(path, map_figure(task, texts, positions, label), "")


def embedding_map(texts: Sequence[str], embeddings: Path | None = None) -> NDArray[np.float64]:
    """Return the positions of n different texts on a map, (n, 2).

    ``embeddings`` is a JSONL file with an embedding of each text (default: TF-IDF vectors).
    """
    if not MIN_TEXTS <= len(texts) <= MAX_TEXTS:
        problem = f"A map needs {MIN_TEXTS} to {MAX_TEXTS:,} different texts, not {len(texts):,}."
        raise ConfigError(problem, "Choose a part of the data with -o.")
    vectors: Any
    if embeddings is None:
        text_features = import_extra("sklearn.feature_extraction.text", "build")
        vectors = text_features.TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    else:
        vectors = _read(embeddings, texts)
    manifold = import_extra("sklearn.manifold", "build")
    options = {"perplexity": min(PERPLEXITY, (len(texts) - 1) / 3), "random_state": SEED}
    projection = manifold.TSNE(metric="cosine", init="random", **options)
    # OpenMP's threads wait in busy loops: for 61 texts, two take 20 times the CPU time of one.
    threads = 1 if len(texts) < THREADS_FROM else None
    with import_extra("threadpoolctl", "build").threadpool_limits(threads):
        return np.asarray(projection.fit_transform(vectors), np.float64)


def _read(path: Path, texts: Sequence[str]) -> NDArray[np.float64]:
    try:
        lines = [msgspec.convert(row, _Line) for row in read_jsonl(path)]
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{path}: not an embedding ({error}).", REMEDY) from None
    embeddings = {line.text: line.embedding for line in lines}
    lacking = [text for text in texts if text not in embeddings]
    if lacking:
        problem = f"{path} has no embedding of {len(lacking):,} texts, such as {lacking[0]!r:.80}."
        raise DataInvalid(problem, REMEDY)
    rows = [embeddings[text] for text in texts]
    if not rows[0] or len({len(row) for row in rows}) > 1:
        raise DataInvalid(f"{path}: the embeddings are empty or differ in length.", REMEDY)
    return np.array(rows, np.float64)


def map_figure(
    task: str, texts: Mapping[str, str], positions: NDArray[np.float64], label: str
) -> Figure:
    """Draw a task's texts as points at their (n, 2) positions.

    ``texts`` maps each text to its group of ``label``.
    """
    sheet = Sheet(Runs.of([]), "text", escape_unprintable(label))
    for (text, group), (x, y) in zip(texts.items(), positions.tolist(), strict=True):
        sheet.add(
            "",
            [escape_unprintable(text[:200]), escape_unprintable(group)],
            x=x,
            y=y,
            group=escape_unprintable(group),
        )
    groups = sorted({point["group"] for point in sheet.data})
    shapes = run_shapes(len(groups))
    chart = sheet.chart("text_map", label=escape_unprintable(label), groups=groups, shapes=shapes)
    caption = "t-SNE: near points are similar texts; distances between far points mean nothing."
    title = f"{len(texts):,} different criteria of {task}"
    return sheet.figure("map", title, caption, chart)
