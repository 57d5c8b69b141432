"""Macro-averaged F1 of two classes, with a standard error that respects clusters.

Owns the one definition: the mean over the classes of F1_c = 2 TP / (2 TP + FP + FN), the
"averaged F1" of Opitz and Burst (2021, "Macro F1 and Macro F1", arXiv 1911.03347), which
they recommend over the F1 of averaged precision and recall.

An instance's class is its group under a label. The answer says that class where it is right,
and the other one where it is wrong. One that has no verdict (refused, empty, unreadable) says
neither: a miss of its class, and no false alarm of the other. What failed as a call is left
out, as everywhere.

>>> macro_f1(validations, "right", "validity")[()].mean  # doctest: +SKIP
0.71
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.analysis.breakdown import Key, Part, parts
from harness.analysis.clustered import clustered_mean
from harness.errors import ConfigError
from harness.store.columns import AttemptTable, Ints


def macro_f1(samples: AttemptTable, score: str, label: str, *labels: str) -> dict[Key, Part]:
    """The macro-F1 of each group, sorted; of all samples under ``()`` where no label is given.

    Of a group in which one of the classes never occurs it is None: the other class's F1 alone
    is another figure.

    samples: one row for each.
    score: true where the answer is right about its class; it may be missing.
    label: its two groups are the classes.

    Raises: ConfigError where there are more than two.
    """
    groupings = samples.instances.groupings
    classes = sorted({groups[label] for groups in groupings if label in groups})
    if len(classes) > 2:
        raise ConfigError(
            f"The label {label!r} has {len(classes)} groups, not two: no macro-F1 of it.",
            "Name a label with two groups, or another figure (--score).",
        )
    code = {name: number for number, name in enumerate(classes)}
    codes = np.array([code.get(g.get(label, ""), -1) for g in groupings], dtype=np.int32)
    return {key: _of(rows, score, codes) for key, rows in parts(samples, *labels)}


def _of(rows: AttemptTable, score: str, codes: Ints) -> Part:
    """Of some rows; codes: class (0, 1) of each grouping, -1 for none."""
    right = codes[rows.instances.grouping[rows.instance]]
    known = rows.measured(score) if score in rows.scores else np.zeros(len(rows), np.bool_)
    correct = known & (rows.scores[score] != 0) if score in rows.scores else known
    counted = (right >= 0) & (known | rows.judged)
    right, known, correct = right[counted], known[counted], correct[counted]
    clusters = rows.cluster[counted]
    said = np.where(known, np.where(correct, right, 1 - right), -1)
    figures: list[float] = []
    influence = np.zeros(len(right))
    for number in (0, 1):
        is_class, says_class = right == number, said == number
        if not is_class.any():
            n_clusters = len(np.unique(clusters))
            return Part(None, None, None, len(right), n_clusters, len(rows) - len(right))
        twice = 2.0 * (is_class & says_class)  # 2 TP
        size = is_class.astype(np.float64) + says_class  # 2 TP + FP + FN
        f1 = float(twice.sum() / size.sum())
        figures.append(f1)
        # A ratio of means, linearised: what each answer moves it by.
        influence += (twice - f1 * size) / size.mean() / 2
    error = replace(clustered_mean(influence, clusters), mean=sum(figures) / 2)
    # Not `ci95`: where all answers are alike its bound is one of a mean, which this is not.
    interval = error.ci95_unbounded
    if interval is not None:
        interval = max(0.0, interval[0]), min(1.0, interval[1])
    return Part(
        error.mean, error.stderr, interval, error.n, error.n_clusters, len(rows) - len(right)
    )
