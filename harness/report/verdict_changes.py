"""What re-scoring a run has changed, for a terminal: the first changes, counts, groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.analysis.rescoring import VerdictChange, VerdictChanges, VerdictCounts
from harness.report.cells import inert
from harness.report.group_table import MOST_GROUPS
from harness.report.transcript import inert_text

_WORDS = {True: "true", False: "false", None: "null"}
_WORST_FIRST: tuple[tuple[bool | None, bool | None], ...] = (
    (True, False),
    (False, True),
    (True, None),
    (False, None),
    (None, True),
    (None, False),
)
_LONGEST_REASON = 300


def change_line(change: VerdictChange) -> RenderableType:
    """One changed verdict, with its reason below."""
    key = change.key
    title = Text.assemble(
        (inert(key.instance).plain, "bold"),
        f"  sample {key.sample}  round {key.round}  {_turn(change.before, change.after)}",
    )
    if not change.reason:
        return title
    reason = inert_text(change.reason[:_LONGEST_REASON])
    return Group(
        title, Padding(Text.assemble("was: " if change.after else "", reason), (0, 0, 0, 2))
    )


def change_tables(changes: VerdictChanges, versions: tuple[str, str]) -> RenderableType:
    """The counts, and a table for each label whose groups have changed verdicts.

    versions: of the harness that ran, and that scores now.
    """
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    facts.add_row("scored by", _versions(*versions))
    facts.add_row("same verdict", f"{changes.same:,}" + _otherwise(changes))
    facts.add_row("changed", Text(f"{changes.changed:,}", style="bold"))
    for before, after in _turns(changes.verdicts):
        facts.add_row(f"  {_turn(before, after)}", f"{changes.verdicts[before, after]:,}")
    facts.add_row("passed", _passed(changes.verdicts))
    if changes.gone:
        facts.add_row("gone", f"{changes.gone:,} attempts on instances that the data set has not")
    if changes.left:
        facts.add_row("left", f"{changes.left:,} failed calls: nothing to score")
    parts = [facts, *_group_tables(changes)] if changes.changed else [facts]
    return Group(*(line for part in parts for line in (part, "")))


def _group_tables(changes: VerdictChanges) -> Iterator[RenderableType]:
    turns = _turns(changes.verdicts)
    for label, groups in changes.groups.items():
        table = Table(box=SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(inert(label))
        for heading in ("n", *(_turn(*turn) for turn in turns)):
            table.add_column(heading, justify="right")
        changed = _changed_groups(groups)
        for name in changed[:MOST_GROUPS]:
            counts = groups[name]
            cells = [f"{counts[turn]:,}" if counts[turn] else "" for turn in turns]
            table.add_row(inert(name), f"{counts.total():,}", *cells)
        same = len(groups) - len(changed)
        notes = [f"Groups without a change: {same:,}."] if same else []
        if len(changed) > MOST_GROUPS:
            notes.append(f"{len(changed) - MOST_GROUPS:,} more have changes.")
        yield Group(table, *([Text(" ".join(notes), style="dim")] if notes else []))


def _changed_groups(groups: Mapping[str, VerdictCounts]) -> list[str]:
    return sorted(name for name, counts in groups.items() if _turns(counts))


def _turns(verdicts: VerdictCounts) -> list[tuple[bool | None, bool | None]]:
    """The changes there are, those for the worse first."""
    return [turn for turn in _WORST_FIRST if verdicts[turn]]


def _turn(before: bool | None, after: bool | None) -> str:
    return f"{_WORDS[before]} → {_WORDS[after]}"


def _versions(before: str, now: str) -> Text:
    if before == now:
        return inert(f"harness {now}, as before")
    return inert(f"harness {now}; the run by {before}")


def _otherwise(changes: VerdictChanges) -> str:
    count = changes.otherwise
    return f", {count:,} of them from another outcome or score" if count else ""


def _passed(verdicts: VerdictCounts) -> str:
    def share(place: int) -> str:
        judged = {turn: n for turn, n in verdicts.items() if turn[place] is not None}
        return (
            f"{sum(n for turn, n in judged.items() if turn[place]):,} of {sum(judged.values()):,}"
        )

    before, after = share(0), share(1)
    return before if before == after else f"{before}, now {after}"
