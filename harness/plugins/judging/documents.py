"""Presents judges (agreement with a reference, scores of references) and error labels."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.metrics import Statistic
from harness.plugins.judging.error_labels import ErrorTally
from harness.plugins.judging.validation import Agreement, JudgeValidation
from harness.report.table import Column, Note, Table, TableDocument, table
from harness.report.text import p_value, percent


def error_document(found: ErrorTally) -> TableDocument:
    """Build an error analysis: kinds of error by group, and the agreement of two annotators."""
    groups = sorted({group for own in found.labels.values() for group in own})
    total = sum(sum(own.values()) for own in found.labels.values())
    rows = []
    for kind, own in found.labels.items():
        n = sum(own.values())
        rows.append([kind, n, percent(n, total), *(own.get(group, 0) for group in groups if group)])
    columns = "kind of error", "failures", "share", *filter(None, groups)
    parts: list[Table | Note] = [table(columns, rows)]
    if found.unlabelled:
        parts.append(Note(f"Not labelled, and not counted: {found.unlabelled:,}.", "yellow"))
    if found.agreement is not None:
        figures = "agreement", "value ± s.e.", "95%", "n"
        parts.append(table(figures, [["Cohen's kappa", *_cells(found.agreement)]]))
    return TableDocument(parts=parts, data=found)


def validation_document(found: JudgeValidation) -> TableDocument:
    """Build the document of a judge's validation: agreement, calibration and rankings of runs."""
    own = found.agreement.confusion
    says = {"yes": "says yes", "no": "says no", "abstained": "abstains"}
    confusion = [[text, own[f"{one}_yes"], own[f"{one}_no"]] for one, text in says.items()]
    parts: list[Table | Note] = [
        Note(", ".join(found.runs), ""),
        _figures(found),
        table(["the judge", "reference yes", "reference no"], confusion),
    ]
    if found.calibration.n:
        bins = [
            [f"{one.low:.1f}-{one.high:.1f}", one.n, one.mean_probability, one.yes, one.yes.ci95]
            for one in found.calibration.bins
            if one.n
        ]
        parts.append(table(["probability", "n", "mean", "reference yes ± s.e.", "95%"], bins))
    if found.parts:
        groups = [[part.group, *_agreement(part.agreement)] for part in found.parts]
        columns = [found.label, "accuracy ± s.e.", "95%", "kappa", "n", "abstained"]
        parts.append(table(columns, groups))
    if found.scores:
        scores = [
            [f"{one.run} {one.score}", one.judge, one.reference, one.judge.n]
            for one in found.scores
        ]
        ranked = [[one.score, one.tau_b, one.p_value, one.n_runs] for one in found.rankings]
        tau = Column("tau-b", digits=2, sign=True)
        parts += [
            table(["mean score", "judge ± s.e.", "reference ± s.e.", "n"], scores),
            table(["ranking", tau, Column("p", form=p_value), "runs"], ranked),
        ]
    return TableDocument(
        title=f"{found.judge} against {found.reference}",
        marks=found.marks,
        parts=[*parts, *map(Note, _captions(found))],
        data=found,
    )


def judges_document(found: Sequence[JudgeValidation]) -> TableDocument:
    """Build a document that compares several judges with one reference, with a row per judge."""
    first = found[0]
    rows = []
    for one in found:
        both = one.confidence_covariance.mean, one.confidence_correlation.mean
        ranked = [ranking.tau_b for ranking in one.rankings if ranking.score == "soft"] or [None]
        accuracy, between, kappa, *sizes = _agreement(one.agreement)
        rows.append([one.judge, accuracy, between, kappa, *both, *ranked, *sizes])
    tau = Column("tau-b", digits=2, sign=True) if first.rankings else None
    columns = ["judge", "accuracy ± s.e.", "95%", "kappa", "covariance", "r", tau, "n", "abstained"]
    told = [
        "Each judge over the criteria that it and the reference decided on. covariance and r: of "
        "both judges' probabilities of yes; tau-b: of the runs' ranking by the soft score.",
        *dict.fromkeys(note for one in found for note in one.notes),
    ]
    return TableDocument(
        title=f"judges against {first.reference}",
        marks=first.marks,
        parts=[Note(", ".join(first.runs), ""), table(columns, rows), *map(Note, told)],
        data=list(found),
    )


def _agreement(found: Agreement) -> list[object]:
    accuracy = found.accuracy
    return [accuracy, accuracy.ci95, found.kappa.mean, accuracy.n, _abstained(found)]


def _abstained(found: Agreement) -> int:
    return found.confusion["abstained_yes"] + found.confusion["abstained_no"]


def _figures(found: JudgeValidation) -> Table:
    own, sure = found.agreement, found.calibration
    rows = [
        ["accuracy", *_cells(own.accuracy)],
        ["Cohen's kappa", *_cells(own.kappa)],
        ["sensitivity (yes to a yes)", *_cells(own.sensitivity)],
        ["specificity (no to a no)", *_cells(own.specificity)],
    ]
    if sure.n:
        rows += [
            ["mean confidence", sure.mean_confidence, "", sure.n],
            ["covariance of confidence and being right", *_cells(sure.covariance_with_right)],
            ["calibration error", sure.expected_error, "", sure.n],
        ]
    if found.confidence_covariance.n:
        rows += [
            ["confidence covariance, both judges", *_cells(found.confidence_covariance)],
            ["confidence correlation, both judges", *_cells(found.confidence_correlation)],
        ]
    return table(["", "value ± s.e.", "95%", "n"], rows)


def _cells(found: Statistic) -> list[object]:
    return [found, found.ci95, found.n]


def _captions(found: JudgeValidation) -> list[str]:
    sentences = [
        f"{found.n:,} criteria of {found.n_clusters:,} prompts, which are the statistical units. "
        f"The judge abstained on {_abstained(found.agreement):,} of them (not counted as no), "
        f"the reference on {found.agreement.reference_abstained:,}.",
        *([f"Excluded: {said}."] if (said := found.left_out.said()) else []),
        "Confidence: the probability that the judge assigns to its verdict. Its covariance with "
        "being right is positive (at most 0.125) if the judge is more confident when right."
        if found.calibration.n
        else "The judge's probabilities are not known, so there is no calibration.",
    ]
    if found.confidence_covariance.n:
        sentences.append("Both judges: their probabilities of yes (covariance at most 0.25).")
    if found.scores:
        sentences.append(
            "Both sides score the same answers by the same criteria. For few runs tau-b says "
            "little: three runs in the same order have p 0.33."
        )
    return [*sentences, *found.notes]
