"""`harness score`: score a run's recorded replies again, without model calls.

The result is written atomically to ``scores.jsonl``, next to the attempts. The ``header`` in its
first line holds the number of bytes of attempts that were read, which shows whether the run has
grown since. Each further line is a `harness.plugins.rescoring.rescorer.Rescored`. The
verdicts that have changed are shown with control characters escaped.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress import Progress
from rich.text import Text

from harness.analysis.run_display import display_entries
from harness.cli.options import Jobs, Run
from harness.config.settings import Settings
from harness.engine.assessment import ScoreWarnings, warning_lines
from harness.engine.changes import warn_of_splitter
from harness.engine.reasoning import mark_warnings
from harness.engine.resolving import build_task
from harness.engine.run_files import find_named_run
from harness.errors import DataMissing, option
from harness.execution import report_executions
from harness.plugins.rescoring.rescorer import (
    Rescorer,
    VerdictChange,
    VerdictChanges,
    VerdictCounts,
    batches,
    line,
)
from harness.records import SCHEMA_VERSION
from harness.report.run_tables import MAX_GROUPS
from harness.report.table import Cell, Table, TableDocument, facts_table, table
from harness.report.text import escape_name, escape_text
from harness.store.files import replace_atomically
from harness.store.index import AttemptIndex
from harness.store.lost_lines import warn_of_missing
from harness.store.manifest import package_versions
from harness.store.run_folder import SCORES, describe_input_change
from harness.terminal.console import messages, output, say, show
from harness.wording import format_count, truncate
from harness.workers import Workers, available_cores

CHANGED = 3  # exit code if verdicts changed; an error exits with 1
ALONE_S = 1.0  # before other processes help: each takes most of a second to start
FIRST = 10  # number of changes shown without --all


def score(
    run: Run,
    show_all: Annotated[bool, typer.Option("--all")] = False,
    jobs: Jobs = None,
) -> None:
    """Score a run's recorded replies again without model calls, and show the changes.

    Writes scores.jsonl next to the attempts. Exit codes: 0 every verdict is unchanged, 3 some
    changed, 1 scoring failed.

    Args:
        show_all: Show every changed verdict instead of the first ten.
    """
    report_executions()
    settings = Settings()
    folder = find_named_run(run, settings)
    recorded = AttemptIndex(folder.attempts)
    if not len(recorded):
        remedy = "Run its run file again: it resumes where it stopped."
        raise DataMissing(f"The run {folder.name!r} has no attempts to score.", remedy)
    warn_of_missing(folder, recorded.attempts)
    config = folder.read_config()
    task = build_task(config, settings)
    fingerprint = dict(task.fingerprint())
    manifest = folder.read_manifest()
    display = display_entries(config, task.instances())
    if any(manifest.get(key) != value for key, value in display.items()):
        folder.update_manifest(display)
    before: Mapping[str, str] = manifest.get("fingerprint", {})
    warn_of_splitter(fingerprint, settings.cache_dir, simulated=bool(manifest.get("simulated")))
    changed_inputs = [
        key for key, now in sorted(fingerprint.items()) if before.get(key, now) != now
    ]
    for key in changed_inputs:
        say(
            f"Changed since the run: {describe_input_change(key, before[key], fingerprint[key])}",
            "yellow",
        )
    packages = package_versions()
    header = {
        "run": folder.name,
        "scored_at": time.time(),
        "packages": packages,
        "fingerprint": fingerprint,
        "fingerprint_before": before,
        "attempts": len(recorded),
        "attempts_bytes": recorded.size,
    }
    changes = VerdictChanges()
    separated = 0
    unknown_marks: Counter[str] = Counter()
    path = folder.path / SCORES
    rescorer = Rescorer(task, config, settings, recorded.path, recorded.register.judged)
    hidden = show_all or not messages.is_terminal
    score_warnings = ScoreWarnings()
    first: list[VerdictChange] = []
    with (
        replace_atomically(path) as temporary,
        temporary.open("wb") as file,
        contextlib.closing(rescorer),
        Workers(jobs or available_cores(), ALONE_S) as workers,
        Progress(console=messages, transient=True, disable=hidden) as progress,
    ):
        bar = progress.add_task("scoring", total=len(recorded))
        file.write(line({"v": SCHEMA_VERSION, "header": header}) + b"\n")
        for scored in workers.map_in_order(rescorer.score, batches(task, recorded)):
            file.write(scored.lines)
            changes.add(scored.changes)
            separated += scored.separated
            unknown_marks.update(scored.unknown_marks)
            score_warnings.update(scored.warnings)
            for problem in scored.unscored:
                say(problem)
            if show_all:  # printed immediately: there may be one per attempt
                for change in scored.changed:
                    output.print(change_line(change))
            else:
                first += scored.changed[: FIRST - len(first)]
            progress.advance(bar, scored.attempts)
    for change in first:
        output.print(change_line(change))
    if not show_all and changes.changed > FIRST:
        more = f"… and {changes.changed - FIRST:,} more; --all shows them."
        output.print(Text(more, style="dim"))
    if changes.changed:
        output.print()
    versions = manifest.get("packages", {}).get("harness", "unknown"), packages["harness"]
    show(changes_document(changes, versions))
    for name, warning in warning_lines(score_warnings):
        say(f"{name}: {warning}", "yellow")
    say(f"Scores in {path}")
    for warning in mark_warnings(unknown_marks):
        say(warning, "yellow")
    if separated:
        answers = format_count(separated, "recorded answer")
        say(f"{answers} contained reasoning, which was separated before scoring.")
        say(f"To continue the run with these scores, add {option('rescore')} to its command.")
    if changed_inputs:
        say("To continue the run with these scores, run its run file again.")
    raise typer.Exit(CHANGED if changes.changed else 0)


_WORDS = {True: "true", False: "false", None: "null"}
_LONGEST_REASON = 300

_Turn = tuple[bool | None, bool | None]
_TURNS: Sequence[_Turn] = tuple(permutations((True, False, None), 2))
"""Changes of a verdict, as (before, after); changes of passed answers come first."""


def change_line(change: VerdictChange) -> RenderableType:
    """Render a changed verdict, with the reason for the failure."""
    title = Text.assemble(
        (escape_name(change.instance).plain, "bold"),
        f"  sample {change.sample}  round {change.round}  {_turn(change.before, change.after)}",
    )
    if not change.reason:
        return title
    reason = escape_text(truncate(change.reason, _LONGEST_REASON))
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
        attempts = f"{format_count(changes.gone, 'attempt')}"
        rows.append(
            ("gone", f"{attempts} on instances no longer in the data set, or with another prompt")
        )
    if changes.left:
        rows.append(("left", f"{format_count(changes.left, 'failed call')}: nothing to score"))
    tables = [_changed_groups(label, groups, turns) for label, groups in changes.groups.items()]
    return TableDocument(parts=[facts_table(rows), *(tables if changes.changed else [])])


def _changed_groups(
    label: str, groups: Mapping[str, VerdictCounts], turns: Sequence[_Turn]
) -> Table:
    changed = sorted(name for name, counts in groups.items() if any(counts[t] for t in _TURNS))
    rows = [
        [name, groups[name].total(), *(groups[name][turn] or "" for turn in turns)]
        for name in changed[:MAX_GROUPS]
    ]
    same = len(groups) - len(changed)
    notes = [f"Groups without a change: {same:,}."] if same else []
    if len(changed) > MAX_GROUPS:
        notes.append(f"{len(changed) - MAX_GROUPS:,} more groups have changes.")
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
