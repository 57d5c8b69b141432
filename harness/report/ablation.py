"""Presents an ablation: the gain of each variant and prompt field, and which claims hold."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.ablation import Ablation, AblationRow, Gain
from harness.analysis.breakdown import explained
from harness.analysis.claims import AblationFindings, ClaimVerdict, FieldGain
from harness.analysis.clustered import ROUNDING
from harness.report.comparison import TESTS, units_shown
from harness.report.table import Cell, Column, Note, Row, Table, TableDocument, flat, table
from harness.report.text import UNKNOWN, number, p_value
from harness.wording import count_of

_VERDICTS = {
    "holds": "bold green",
    "undecided": "yellow",
    "does not hold": "bold red",
    "not tested": "dim",
}


def ablation_document(found: AblationFindings) -> TableDocument:
    """Build the document of an ablation."""
    ablation = found.table
    columns: list[Column | str] = ["variant", Column(ablation.over, hide=1), "mean", "gain %"]
    columns += ["difference", Column("95%", hide=2), Column("p", hide=3)]
    columns.append(Column("p (Holm)", hide=4))
    rows = [Row([row.variant, *_figures(row)], row.marks) for row in ablation.rows]
    parts: list[Table | Note] = [table(columns, rows, notes=_notes(ablation))]
    if ablation.by:
        parts.append(_by_groups(ablation))
    if found.fields:
        parts.append(_fields(found.fields, ablation.over))
    if found.claims:
        parts.append(_claims(found.claims))
    if found.silent and (found.fields or found.claims):
        parts.append(Note(
            "Not counted for any field or claim, because they are incomplete, simulated, or "
            f"differ from the baseline in more than the prompt: {', '.join(found.silent)}."
        ))  # fmt: skip
    return TableDocument(
        title="  ".join(name for name in (ablation.task, ablation.model) if name),
        parts=parts,
        records=[_record(row) for row in ablation.rows],
        data=found,
    )


def _figures(row: AblationRow) -> list[str]:
    told = [f"{row.gain.n:,} of {row.gain.of:,}", _mean(row.mean, not row.same_groups)]
    if row.is_baseline:
        return [*told, "", "baseline", "", "", ""]
    if not row.gain.n:
        return [*told, UNKNOWN, "none shared", "", "", ""]
    ps = (p_value(row.p_value), p_value(row.p_holm))
    return [*told, _percent(row.gain), *_hundredfold(row), *ps]


def _notes(found: Ablation) -> list[str]:
    tested = [TESTS[row.method] for row in found.rows if row.p_value is not None]
    sample = ", as a random sample of all such groups" if found.cluster == found.over else ""
    notes = [
        f"{found.score} x 100: mean over {count_of(found.n_groups, 'group')} of {found.over!r} "
        f"with equal weight. Gain: per cent of the mean of {found.baseline!r}. Difference from it, "
        "on the instances that both have, with 95% interval and p, not adjusted. The statistical "
        f"units are {units_shown(found.cluster)}{sample}."
    ]
    if tested:
        listed = " or ".join(dict.fromkeys(tested))
        notes.append(
            f"p by {listed}. p (Holm): adjusted over all rows that have one ({len(tested)})."
        )
    unlike = [
        f"{row.variant} {number(100 * row.by_instance, 2, sign=True)}"
        for row in found.rows
        if row.by_instance is not None
        and row.difference is not None
        and abs(row.by_instance - row.difference) > ROUNDING
    ]
    if unlike:
        notes.append(
            "The groups have unequal sizes. With equal weight of instances, as in harness compare, "
            f"the differences are: {', '.join(unlike)}."
        )
    if any(row.mean is not None and not row.same_groups for row in found.rows):
        notes.append(
            "* Covers different groups from the baseline, so this mean is not comparable with the "
            "other means. Gain and difference are over the groups that both have."
        )
    return [*notes, *explained(found.score), *found.notes]


def _by_groups(found: Ablation) -> Table:
    columns: list[Column | str] = ["variant"]
    for name in found.rows[0].by:
        size = count_of(max(row.by[name].of for row in found.rows), "group")
        columns += [Column(heading, over=f"{name} ({size})") for heading in ("mean", "gain %")]
    rows = []
    for row in found.rows:
        cells = [row.variant]
        for gain in row.by.values():
            percent = "" if row.is_baseline else _percent(gain)
            cells += [_mean(gain.mean, gain.n < gain.of), percent]
        rows.append(cells)
    note = "Mean x 100, and the gain over the baseline's mean in per cent."
    return table(columns, rows, notes=[note])


def _fields(gains: Sequence[FieldGain], over: str) -> Table:
    columns: list[Column | str] = [
        *(Column(heading, text=True) for heading in ("field added", "without", "with")),
        "difference",
        Column("95%", hide=2),
        Column(f"more on ({over})", hide=1),
    ]
    rows = []
    for gain in gains:
        field, better = gain.field + "†" * bool(gain.other_forms), f"{gain.n_better} of {gain.n}"
        rows.append([field, gain.less, gain.more, *_hundredfold(gain), better])
    changed = {(name, *forms) for gain in gains for name, forms in gain.other_forms.items()}
    notes = [
        f"Pairs of variants that differ only in that field. Units: groups of {over!r}. Intervals "
        "are not adjusted.",
        *(
            f"† {less!r} also becomes {more!r} there: both count as the field {name!r}."
            for name, less, more in sorted(changed)
        ),
    ]
    return table(columns, rows, notes=notes)


def _claims(claims: Sequence[ClaimVerdict]) -> Table:
    rows = [
        [Cell(c.verdict, style=_VERDICTS[c.verdict]), f"“{c.says}” {c.source}: {c.evidence}"]
        for c in claims
    ]
    note = (
        "holds: more, with all of the 95% interval above 0; undecided: more, but the interval "
        "includes 0."
    )
    said = any(claim.verdict in ("holds", "undecided") for claim in claims)
    evidence = Column("claim, source and evidence", text=True)
    return table(["verdict", evidence], rows, notes=[note] if said else [])


def _mean(mean: float | None, marked: bool) -> str:
    return UNKNOWN if mean is None else number(100 * mean, 2) + "*" * marked


def _percent(gain: Gain) -> str:
    return number(gain.percent, 1, sign=True)


def _hundredfold(row: AblationRow | FieldGain) -> tuple[str, str]:
    scaled = None if row.difference is None else 100 * row.difference
    bounds = UNKNOWN
    if row.ci95 is not None:
        bounds = " to ".join(number(100 * one, 2) for one in row.ci95)
    return number(scaled, 2, sign=True), bounds


def _record(row: AblationRow) -> dict[str, object]:
    figures = flat(row)
    keys = ("difference", "ci95_low", "ci95_high", "p_value", "p_holm")
    found: dict[str, object] = {
        "variant": row.variant,
        "baseline": row.is_baseline,
        "marks": "; ".join(row.marks),
        "groups": row.n_groups,
        "mean": row.mean,
        "same_groups": row.same_groups,
        "common_groups": row.gain.n,
        "gain_percent": None if row.is_baseline else row.gain.percent,
        **{key: figures[key] for key in keys},
    }
    for name, gain in row.by.items():
        found[f"mean {name}"] = gain.mean
        found[f"gain_percent {name}"] = None if row.is_baseline else gain.percent
    return found
