"""What a data set asks of answers, in a terminal, as Markdown and as JSON.

>>> Console(width=80).print(criteria_table("wildifeval", found))  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from harness.analysis.constraints import CriteriaDescription, Together
from harness.report.ablation_figures import whole
from harness.report.cells import empty_table, inert
from harness.report.markdown import escaped, markdown_lines
from harness.report.matrix_table import NumberedTable

MOST = 20
"""Of openings and of an instances' label, the most frequent: all are in the JSON."""

Table = tuple[str, Sequence[str], list[list[str]]]
"""A label, headings, and rows with their names before them."""

PMI = "PMI"


def criteria_table(name: str, found: CriteriaDescription) -> RenderableType:
    """The tables one below the other."""
    title = inert(name)
    title.stylize("bold")
    parts: list[RenderableType] = [Text.assemble(title, ": ", summary(found))]
    for label, headings, rows in tables(found):
        parts.append("")
        if label == PMI:
            names = [row[0] for row in rows]
            parts.append(NumberedTable(label, names, headings, [row[1:] for row in rows]))
        else:
            table = empty_table()
            table.add_column(Text(whole(label)))
            for heading in headings:
                table.add_column(heading, justify="right", no_wrap=True)
            for row in rows:
                table.add_row(*map(Text, map(whole, row)))
            parts.append(table)
    return Group(*parts, "", Text(caption(found), style="dim"))


def as_markdown(name: str, found: CriteriaDescription) -> str:
    """The same tables."""
    lines = [f"**{escaped(name)}**: {summary(found)}"]
    for label, headings, rows in tables(found):
        lines += ["", *markdown_lines([label, *headings], rows)]
    return "\n".join([*lines, "", escaped(caption(found))]) + "\n"


def as_json(name: str, found: CriteriaDescription) -> str:
    """Everything, in ASCII, with a PMI of null where it is -∞."""
    told = {"task": name, **msgspec.to_builtins(found, str_keys=True)}
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def summary(found: CriteriaDescription) -> str:
    """Tasks and criteria, in a sentence."""
    mean = "" if found.mean is None else f", {found.mean:.2f} a task"
    return (
        f"{found.n_tasks:,} tasks, {found.n_criteria:,} criteria{mean}; "
        f"{found.n_distinct:,} different ones"
    )


def caption(found: CriteriaDescription) -> str:
    """What must be known to read the tables."""
    return (
        f"PMI: log p(a, b) / (p(a) p(b)), natural, p over the {found.n_tasks:,} tasks; with the "
        "tasks that ask for both; -∞ where none does. Openings: first words, lower-cased."
    )


def tables(found: CriteriaDescription) -> list[Table]:
    """By category; by number and category; openings; together; the instances' labels."""
    numbers = [str(n) for n in found.tasks_by_count]
    by_count = found.groups_by_count
    groups = list(found.groups)
    made: list[Table] = [
        (
            found.label,
            ("criteria", "%", "tasks"),
            [
                [name, f"{n:,}", _share(n, found.n_criteria), f"{found.tasks_by_group[name]:,}"]
                for name, n in found.groups.items()
            ],
        ),
        (
            "of so many",
            numbers,
            [
                ["tasks", *(f"{n:,}" for n in found.tasks_by_count.values())],
                *([g, *(f"{by_count[n].get(g, 0):,}" for n in by_count)] for g in groups),
            ],
        ),
        ("opening", ("criteria", "%"), _frequent(found.openings, found.n_criteria)),
        _together(found),
    ]
    for label, counts in found.labels.items():
        made.append((label, ("tasks", "%"), _frequent(counts, found.n_tasks)))
    return made


def _together(found: CriteriaDescription) -> Table:
    """Below the diagonal the PMI, above it the tasks."""
    names = sorted(found.tasks_by_group)
    of = {(one.first, one.second): one for one in found.together}
    rows = []
    for at, name in enumerate(names):
        below = [_pmi(of[other, name]) for other in names[:at]]
        above = [f"{of[name, other].n:,}" for other in names[at + 1 :]]
        rows.append([f"{at + 1} {name}", *below, "·", *above])
    return PMI, [str(at + 1) for at in range(len(names))], rows


def _pmi(pair: Together) -> str:
    return "-∞" if pair.pmi is None else f"{pair.pmi:+.2f}"


def _frequent(counts: Mapping[str, int], total: int) -> list[list[str]]:
    """The most frequent, and the rest in one row."""
    falling = list(counts.items())
    rows = [[name or "(none)", f"{n:,}", _share(n, total)] for name, n in falling[:MOST]]
    rest = falling[MOST:]
    if rest:
        n = sum(count for _, count in rest)
        rows.append([f"{len(rest):,} others", f"{n:,}", _share(n, total)])
    return rows


def _share(n: int, total: int) -> str:
    return f"{100 * n / total:.1f}" if total else "n/a"
