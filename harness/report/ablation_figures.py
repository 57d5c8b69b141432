"""The figures of an ablation as text, and what must be said of them.

>>> p_value(0.0)
'<0.001'
"""

from __future__ import annotations

from harness.analysis.ablation import Ablation, AblationRow, Gain, counted, several
from harness.analysis.claims import FieldGain

UNKNOWN = "n/a"


def captions(table: Ablation) -> list[str]:
    """What must be known to read the rows."""
    units = whole(several(table.over))
    compared = sum(row.p_value is not None for row in table.rows)
    told = [
        f"{whole(table.score)} x 100: the mean over {whole(counted(table.n_groups, table.over))}, "
        "each weighing the same. Gain: per cent of the mean of "
        f"{whole(table.baseline)!r}. Difference to it with 95% interval and p: paired t over the "
        f"{units}; p by Holm over all rows that have one ({compared}), the intervals each for "
        "itself."
    ]
    if any(row.mean is not None and not row.same_groups for row in table.rows):
        told.append(
            f"* Not of the same {units} as the baseline's, and not comparable with the other "
            f"means. Gain and difference are over the {units} that both have."
        )
    return [*told, *map(whole, table.notes)]


def mean(row: AblationRow) -> str:
    """The mean x 100, marked where it is of other groups than the baseline's."""
    if row.mean is None:
        return UNKNOWN
    return f"{100 * row.mean:z.2f}{'' if row.same_groups else '*'}"


def percent(gain: Gain) -> str:
    """A gain in per cent."""
    return UNKNOWN if gain.percent is None else f"{gain.percent:+z.1f}"


def by_mean(row: AblationRow, name: str) -> str:
    """The mean x 100 in a group, marked where it is of some of the units there."""
    gain = row.by[name]
    if gain.mean is None:
        return UNKNOWN
    return f"{100 * gain.mean:z.2f}" + ("*" if gain.n < gain.of else "")


def by_percent(row: AblationRow, name: str) -> str:
    """A gain in a group."""
    return "" if row.is_baseline else percent(row.by[name])


def by_size(table: Ablation, name: str) -> str:
    """How many units a group has."""
    return whole(counted(max(row.by[name].of for row in table.rows), table.over))


def interval(ci95: tuple[float, float] | None) -> str:
    """An interval x 100."""
    return UNKNOWN if ci95 is None else f"{100 * ci95[0]:z.2f} to {100 * ci95[1]:z.2f}"


def p_value(p: float | None) -> str:
    """A p value; never 0."""
    if p is None:
        return UNKNOWN
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def cells(row: AblationRow, over: str) -> dict[str, str]:
    """The figures of a row by their headings, without those by group."""
    told = {over: f"{row.gain.n:,} of {row.gain.of:,}", "mean": mean(row)}
    if row.is_baseline:
        return told | {"gain %": "", "difference": "baseline", "95%": "", "p": ""}
    if not row.gain.n:
        return told | {"gain %": UNKNOWN, "difference": "none shared", "95%": "", "p": ""}
    return told | {
        "gain %": percent(row.gain),
        "difference": UNKNOWN if row.difference is None else f"{100 * row.difference:+z.2f}",
        "95%": interval(row.ci95),
        "p": p_value(row.p_holm),
    }


def field_cells(gain: FieldGain) -> list[str]:
    """Difference, interval, and on how many groups it is more."""
    return [f"{100 * gain.difference:+z.2f}", interval(gain.ci95), f"{gain.n_better} of {gain.n}"]


def field_notes(gains: list[FieldGain]) -> list[str]:
    """What must be known to read the fields."""
    told = ["Two variants that differ in that field alone; each interval for itself."]
    changed = {(name, *forms) for gain in gains for name, forms in gain.other_forms.items()}
    told += [
        f"† There {less!r} becomes {more!r}, too: both are counted as the field {name!r}."
        for name, less, more in sorted(changed)
    ]
    return list(map(whole, told))


def whole(text: str) -> str:
    """A text from data on one line, with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
