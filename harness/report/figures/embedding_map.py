"""A map of texts (`harness.analysis.embedding_map`) as a figure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from harness.report.figure import SHAPES, Figure
from harness.report.figures.plot import PADDING, Runs, Sheet, alt, specification
from harness.report.text import printable

HEIGHT = 520  # pixels


def map_figure(
    task: str, texts: Mapping[str, str], positions: NDArray[np.float64], label: str
) -> Figure:
    """Draw texts as points, coloured by group (``texts``: text to group) of a label."""
    sheet = Sheet(Runs.of([]), "text", printable(label))
    for (text, group), (x, y) in zip(texts.items(), positions.tolist(), strict=True):
        sheet.add("", [printable(text[:200]), printable(group)], x=x, y=y, group=printable(group))
    bare = alt.Axis(title=None, labels=False, ticks=False, grid=False)
    scale = alt.Scale(zero=False, padding=PADDING)
    legend = alt.Legend(title=printable(label), columns=2)
    groups = sorted({one["group"] for one in sheet.data})
    shapes = [SHAPES[at % len(SHAPES)] for at in range(len(groups))]
    chart = (
        sheet.base()
        .mark_point(filled=True, size=30, opacity=0.8)
        .encode(
            x=alt.X("x:Q", axis=bare, scale=scale),
            y=alt.Y("y:Q", axis=bare, scale=scale),
            color=alt.Color("group:N", scale=alt.Scale(domain=groups), legend=legend),
            shape=alt.Shape("group:N", scale=alt.Scale(domain=groups, range=shapes), legend=legend),
        )
    )
    caption = "t-SNE: near points are similar texts; distances between far points mean nothing."
    title = f"{len(texts):,} different criteria of {task}"
    return sheet.figure("map", title, caption, specification(chart, height=HEIGHT))
