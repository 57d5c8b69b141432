"""An ablation: what each variant gains, what each prompt field adds, which claims hold."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.ablation import Ablation, AblationRow, Gain, counted, several
from harness.analysis.claims import AblationFindings, ClaimVerdict, FieldGain
from harness.report.table import Cell, Column, Note, Row, Table, TableDocument, names, records
from harness.report.text import UNKNOWN, number, p_value

NAME_WIDTH = 24
_VERDICTS = {
    "holds": "bold green",
    "undecided": "yellow",
    "does not hold": "bold red",
    "not tested": "dim",
}


def ablation_document(found: AblationFindings) -> TableDocument:
    """Build the document: the variants with their notes, the fields, the claims."""
    table = found.table
    parts: list[Table | Note] = [_variants(table)]
    if table.by:
        parts.append(_by_groups(table))
    if found.fields:
        parts.append(_fields(found.fields, table.over))
    if found.claims:
        parts.append(_claims(found.claims))
    if found.silent and (found.fields or found.claims):
        parts.append(
            Note(
                "Not counted for any field or claim, because they are incomplete, simulated, or "
                f"differ from the baseline in more than the prompt: {', '.join(found.silent)}."
            )
        )
    return TableDocument(
        title="  ".join(name for name in (table.task, table.model) if name),
        parts=parts,
        records=records(map(_record, table.rows)),
        data=found,
    )


def _variants(table: Ablation) -> Table:
    columns = names(
        "variant",
        Column(table.over, hide=1),
        Column("mean"),
        Column("gain %"),
        Column("difference"),
        Column("95%", hide=2),
        Column("p", hide=3),
    )
    rows = [Row([row.variant, *_figures(row)], row.marks) for row in table.rows]
    return Table(columns=columns, rows=rows, notes=_notes(table), name_width=NAME_WIDTH)


def _figures(row: AblationRow) -> list[str]:
    told = [f"{row.gain.n:,} of {row.gain.of:,}", _mean(row.mean, not row.same_groups)]
    if row.is_baseline:
        return [*told, "", "baseline", "", ""]
    if not row.gain.n:
        return [*told, UNKNOWN, "none shared", "", ""]
    difference, ci95 = _hundredfold(row.difference, row.ci95)
    return [*told, _percent(row.gain), difference, ci95, p_value(row.p_holm)]


def _notes(table: Ablation) -> list[str]:
    units = several(table.over)
    compared = sum(row.p_value is not None for row in table.rows)
    notes = [
        f"{table.score} x 100: mean over {counted(table.n_groups, table.over)} with equal weight. "
        f"Gain: per cent of the mean of {table.baseline!r}. Difference from it with 95% interval "
        f"and p: paired t over the {units}; p adjusted by Holm over all rows that have one "
        f"({compared}); intervals are not adjusted."
    ]
    if any(row.mean is not None and not row.same_groups for row in table.rows):
        notes.append(
            f"* Covers other {units} than the baseline, so this mean is not comparable with the "
            f"other means. Gain and difference are over the {units} that both have."
        )
    return [*notes, *table.notes]


def _by_groups(table: Ablation) -> Table:
    columns = names("variant")
    for name in table.rows[0].by:
        size = counted(max(row.by[name].of for row in table.rows), table.over)
        over = f"{name} ({size})"
        columns += [Column("mean", over=over), Column("gain %", over=over)]
    rows = []
    for row in table.rows:
        cells = []
        for gain in row.by.values():
            percent = "" if row.is_baseline else _percent(gain)
            cells += [_mean(gain.mean, gain.n < gain.of), percent]
        rows.append(Row([row.variant, *cells]))
    note = "Mean x 100, and the gain over the baseline's mean in per cent."
    return Table(columns=columns, rows=rows, notes=[note], name_width=NAME_WIDTH)


def _fields(gains: Sequence[FieldGain], over: str) -> Table:
    columns = [
        Column("field added", text=True),
        Column("without", text=True),
        Column("with", text=True),
        Column("difference"),
        Column("95%", hide=2),
        Column(f"more on ({over})", hide=1),
    ]
    rows = [
        Row(
            [
                gain.field + ("†" if gain.other_forms else ""),
                gain.less,
                gain.more,
                *_hundredfold(gain.difference, gain.ci95),
                f"{gain.n_better} of {gain.n}",
            ]
        )
        for gain in gains
    ]
    changed = {(name, *forms) for gain in gains for name, forms in gain.other_forms.items()}
    notes = [
        "Pairs of variants that differ in that field alone; intervals are not adjusted.",
        *(
            f"† {less!r} also becomes {more!r} there: both count as the field {name!r}."
            for name, less, more in sorted(changed)
        ),
    ]
    return Table(columns=columns, rows=rows, notes=notes, name_width=NAME_WIDTH)


def _claims(claims: Sequence[ClaimVerdict]) -> Table:
    columns = [Column("verdict", text=True), Column("claim, source and evidence", text=True)]
    rows = [
        Row([Cell(c.verdict, style=_VERDICTS[c.verdict]), f"“{c.says}” {c.source}: {c.evidence}"])
        for c in claims
    ]
    notes = []
    if any(claim.verdict in ("holds", "undecided") for claim in claims):
        notes.append(
            "holds: more, with all of the 95% interval above 0; undecided: more, but the interval "
            "includes 0."
        )
    return Table(columns=columns, rows=rows, notes=notes)


def _mean(mean: float | None, marked: bool) -> str:
    """Format a mean x 100, with a star if it covers other groups than the baseline's."""
    return UNKNOWN if mean is None else number(100 * mean, 2) + "*" * marked


def _percent(gain: Gain) -> str:
    return number(gain.percent, 1, sign=True)


def _hundredfold(difference: float | None, ci95: tuple[float, float] | None) -> tuple[str, str]:
    """Format a difference and its interval x 100."""
    scaled = None if difference is None else 100 * difference
    bounds = UNKNOWN if ci95 is None else " to ".join(number(100 * one, 2) for one in ci95)
    return number(scaled, 2, sign=True), bounds


def _record(row: AblationRow) -> dict[str, object]:
    low, high = row.ci95 or (None, None)
    found: dict[str, object] = {
        "variant": row.variant,
        "baseline": row.is_baseline,
        "marks": "; ".join(row.marks),
        "groups": row.n_groups,
        "mean": row.mean,
        "same_groups": row.same_groups,
        "common_groups": row.gain.n,
        "gain_percent": None if row.is_baseline else row.gain.percent,
        "difference": row.difference,
        "ci95_low": low,
        "ci95_high": high,
        "p_value": row.p_value,
        "p_holm": row.p_holm,
    }
    for name, gain in row.by.items():
        found[f"mean {name}"] = gain.mean
        found[f"gain_percent {name}"] = None if row.is_baseline else gain.percent
    return found
