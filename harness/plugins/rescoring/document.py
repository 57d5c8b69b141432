"""Shows verdicts that re-scoring has changed. Control characters are escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.plugins.rescoring.verdict_changes import VerdictChange, VerdictChanges, VerdictCounts
from harness.report.run_tables import MOST_GROUPS
from harness.report.table import Cell, Table, TableDocument, facts, table
from harness.report.text import inert, inert_text
from harness.wording import count_of, truncated

_WORDS = {True: "true", False: "false", None: "null"}
_LONGEST_REASON = 300

_Turn = tuple[bool | None, bool | None]
_TURNS: Sequence[_Turn] = tuple(permutations((True, False, None), 2))
"""Changes of a verdict, as (before, after); changes of passed answers come first."""


def change_line(change: VerdictChange) -> RenderableType:
    """Render a changed verdict, with the reason for the failure."""
    title = Text.assemble(
        (inert(change.instance).plain, "bold"),
        f"  sample {change.sample}  round {change.round}  {_turn(change.before, change.after)}",
    )
    if not change.reason:
        return title
    reason = inert_text(truncated(change.reason, _LONGEST_REASON))
    cause = Text.assemble("was: " if change.after else "", reason)
    return Group(title, Padding(cause, (0, 0, 0, 2)))


def changes_document(changes: VerdictChanges, versions: tuple[str, str]) -> TableDocument:
    """Build the tables of changed verdicts."""
    before, now = versions
    turns = [turn for turn in _TURNS if changes.verdicts[turn]]
    otherwise = f", {changes.otherwise:,} of them with a different outcome or score"
    rows: list[tuple[object, object]] = [
        ("scored by", f"harness {now}" + (", as before" if before == now else f"; run: {before}")),
        ("same verdict", f"{changes.same:,}" + otherwise * bool(changes.otherwise)),
        ("changed", Cell(f"{changes.changed:,}", style="bold")),
        *((f"  {_turn(*turn)}", f"{changes.verdicts[turn]:,}") for turn in turns),
        ("passed", _passed(changes.verdicts)),
    ]
    if changes.gone:
        attempts = f"{count_of(changes.gone, 'attempt')}"
        rows.append(
            ("gone", f"{attempts} on instances no longer in the data set, or with another prompt")
        )
    if changes.left:
        rows.append(("left", f"{count_of(changes.left, 'failed call')}: nothing to score"))
    tables = [_changed_groups(label, groups, turns) for label, groups in changes.groups.items()]
    return TableDocument(parts=[facts(rows), *(tables if changes.changed else [])])


def _changed_groups(
    label: str, groups: Mapping[str, VerdictCounts], turns: Sequence[_Turn]
) -> Table:
    changed = sorted(name for name, counts in groups.items() if any(counts[t] for t in _TURNS))
    rows = [
        [name, groups[name].total(), *(groups[name][turn] or "" for turn in turns)]
        for name in changed[:MOST_GROUPS]
    ]
    same = len(groups) - len(changed)
    notes = [f"Groups without a change: {same:,}."] if same else []
    if len(changed) > MOST_GROUPS:
        notes.append(f"{len(changed) - MOST_GROUPS:,} more groups have changes.")
    return table([label, "n", *(_turn(*turn) for turn in turns)], rows, notes=notes)


def _turn(before: bool | None, after: bool | None) -> str:
    return f"{_WORDS[before]} → {_WORDS[after]}"


def _passed(verdicts: VerdictCounts) -> str:
    def share(place: int) -> str:
        judged = {turn: n for turn, n in verdicts.items() if turn[place] is not None}
        passed = sum(n for turn, n in judged.items() if turn[place])
        return f"{passed:,} of {sum(judged.values()):,}"

    before = share(0)
    after = share(1)
    return before if before == after else f"{before}, now {after}"
