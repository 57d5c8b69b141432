"""A judge's validation in a terminal and as JSON: nothing that is not known is shown as 0.

>>> Console(width=80).print(validation_table(found))  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from harness.analysis.clustered import Statistic
from harness.analysis.judge_agreement import Agreement
from harness.analysis.judge_validation import JudgeValidation
from harness.report.ablation_figures import p_value, whole
from harness.report.cells import UNKNOWN, empty_table, figure, inert, with_error
from harness.report.matrix_table import NumberedTable

HEADINGS = ("value ± s.e.", "95%", "n")


def as_json(found: JudgeValidation) -> str:
    """Everything, in ASCII: no character of it can reach a terminal as a control."""
    return json.dumps(msgspec.to_builtins(found), indent=2, allow_nan=False) + "\n"


def validation_table(found: JudgeValidation) -> RenderableType:
    """The figures, the confusion, the calibration curve, and of several runs the rankings."""
    title = inert(f"{found.judge} against {found.reference}")
    title.stylize("bold")
    marks = [Text(whole(mark), style="bold yellow") for mark in found.marks]
    parts: list[RenderableType] = [
        *marks,
        title,
        Text(", ".join(map(whole, found.runs))),
        "",
        _figures(found),
        "",
        _confusion(found.agreement),
    ]
    if found.calibration.n:
        parts += ["", _curve(found)]
    if found.parts:
        parts += ["", _by_group(found)]
    if found.scores:
        parts += ["", *_rankings(found)]
    return Group(*parts, "", *(Text(caption, style="dim") for caption in captions(found)))


def captions(found: JudgeValidation) -> list[str]:
    """What must be known to read the tables: what is in no figure, above all."""
    confusion, left = found.agreement.confusion, found.left_out
    abstained = confusion.abstained_yes + confusion.abstained_no
    told = [
        f"{found.n:,} criteria of {found.n_clusters:,} prompts, which are the statistical units; "
        f"on {abstained:,} of them the judge abstained, which is no no, and on "
        f"{found.agreement.reference_abstained:,} the reference."
    ]
    counts = {
        "that only the judge tells of": left.only_judge,
        "that only the reference tells of": left.only_reference,
        "that a rule decided in the judge's place": left.by_rule,
    }
    labels = {
        "that match nothing in the runs": left.unmatched,
        "of texts that the runs have no more": left.superseded,
        "of runs that were not named": left.other_runs,
    }
    for what, of in (("criteria", counts), ("labels", labels)):
        there = [f"{n:,} {which}" for which, n in of.items() if n]
        if there:
            told.append(f"Left out are {what}: {', '.join(there)}.")
    if found.calibration.n:
        told.append(
            "Confidence: the probability that the judge gives its own verdict; its covariance with "
            "being right is above 0 where it is surer when it is right (at most 0.125)."
        )
    else:
        told.append("The judge's probabilities are not known, so there is no calibration.")
    if found.scores:
        told.append(
            "Both sides score the same answers by the same criteria. Of few runs tau-b says "
            "little: three in the same order by chance have p 0.33."
        )
    return [*told, *map(whole, found.notes)]


def _figures(found: JudgeValidation) -> RenderableType:
    own, sure = found.agreement, found.calibration
    rows = {
        "accuracy": own.accuracy,
        "Cohen's kappa": own.kappa,
        "says yes to a yes": own.sensitivity,
        "says no to a no": own.specificity,
    }
    cells = [_cells(one) for one in rows.values()]
    names = list(rows)
    if sure.n:
        names += ["mean confidence", "confidence covariance", "calibration error"]
        cells += [
            [figure(sure.mean_confidence), "", f"{sure.n:,}"],
            _cells(sure.confidence_covariance, digits=4),
            [figure(sure.expected_error), "", f"{sure.n:,}"],
        ]
    return NumberedTable("", names, HEADINGS, cells)


def _confusion(found: Agreement) -> RenderableType:
    own = found.confusion
    rows = {
        "says yes": (own.yes_yes, own.yes_no),
        "says no": (own.no_yes, own.no_no),
        "abstains": (own.abstained_yes, own.abstained_no),
    }
    cells = [[f"{n:,}" for n in row] for row in rows.values()]
    return NumberedTable("the judge", list(rows), ("reference yes", "reference no"), cells)


def _curve(found: JudgeValidation) -> RenderableType:
    table = empty_table()
    for heading in ("probability", "n", "mean", "reference yes ± s.e.", "95%"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found.calibration.bins:
        value, between, n = _cells(one.yes)
        name = f"{one.low:.1f}-{one.high:.1f}"
        table.add_row(name, n, figure(one.mean_probability), value, between)
    return table


def _by_group(found: JudgeValidation) -> RenderableType:
    headings = ("accuracy ± s.e.", "95%", "kappa", "n", "abstained")
    cells: list[Sequence[str]] = []
    for part in found.parts:
        own = part.agreement
        value, between, n = _cells(own.accuracy)
        abstained = own.confusion.abstained_yes + own.confusion.abstained_no
        cells.append([value, between, figure(own.kappa.mean), n, f"{abstained:,}"])
    return NumberedTable(found.label, [part.group for part in found.parts], headings, cells)


def _rankings(found: JudgeValidation) -> list[RenderableType]:
    names = [f"{one.run} {one.score}" for one in found.scores]
    cells = [
        [
            with_error(one.judge.mean, one.judge.stderr),
            with_error(one.reference.mean, one.reference.stderr),
            f"{one.judge.n:,}",
        ]
        for one in found.scores
    ]
    taus = [
        [
            UNKNOWN if one.tau_b is None else f"{one.tau_b:+.2f}",
            p_value(one.p_value),
            str(one.n_runs),
        ]
        for one in found.rankings
    ]
    return [
        NumberedTable("mean score", names, ("judge ± s.e.", "reference ± s.e.", "n"), cells),
        "",
        NumberedTable(
            "ranking", [one.score for one in found.rankings], ("tau-b", "p", "runs"), taus
        ),
    ]


def _cells(found: Statistic, digits: int = 3) -> list[str]:
    between = UNKNOWN
    if found.ci95 is not None:
        between = f"{found.ci95[0]:.{digits}f} to {found.ci95[1]:.{digits}f}"
    return [with_error(found.mean, found.stderr, digits), between, f"{found.n:,}"]
