"""`harness score`: score a run's recorded replies again, without model calls.

The result is written atomically to ``scores.jsonl``, next to the attempts. The first line holds the
``header``: the versions of packages, the time of scoring, and the number of bytes of attempts that
were read, which shows whether the run has grown since. Each further line is the new scoring of an
attempt (`harness.analysis.rescoring.Rescored`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.progress import track
from rich.text import Text

from harness.analysis.rescoring import VerdictChange, VerdictChanges, line
from harness.cli.console import Run, messages, output, say, show
from harness.config.settings import Settings
from harness.errors import DataMissing
from harness.records import SCHEMA_VERSION
from harness.report.transcript import change_line, changes_document
from harness.run.checks import check_splitter
from harness.run.long_answers import LongAnswers
from harness.run.rescoring import rescored
from harness.run.resolving import build_task
from harness.run.run_files import run_named
from harness.store.files import replacing
from harness.store.index import AttemptIndex
from harness.store.manifest import package_versions
from harness.store.run_folder import SCORES, input_change

CHANGED = 3  # exit code if verdicts changed; an error exits with 1
FIRST = 10  # number of changes shown without --all


def score(run: Run, show_all: Annotated[bool, typer.Option("--all")] = False) -> None:
    """Score a run's recorded replies again without model calls, and show the changes.

    Writes scores.jsonl next to the attempts. Exit codes: 0 every verdict is unchanged, 3 some
    changed, 1 scoring failed.

    Args:
        show_all: Show every changed verdict instead of the first ten.
    """
    settings = Settings()
    folder = run_named(run, settings)
    recorded = AttemptIndex(folder.attempts)
    if not len(recorded):
        remedy = "Run its run file again: it resumes where it stopped."
        raise DataMissing(f"The run {folder.name!r} has no attempts to score.", remedy)
    config = folder.read_config()
    task = build_task(config, settings)
    long_answers = LongAnswers(task, config, settings, say)
    manifest, fingerprint = folder.read_manifest(), dict(task.fingerprint())
    before: Mapping[str, str] = manifest.get("fingerprint", {})
    check_splitter(fingerprint, simulated=bool(manifest.get("simulated")))
    changed_inputs = [
        key for key, now in sorted(fingerprint.items()) if before.get(key, now) != now
    ]
    for key in changed_inputs:
        say(f"Changed since the run: {input_change(key, before[key], fingerprint[key])}", "yellow")
    packages = package_versions()
    header = {"run": folder.name, "scored_at": time.time(), "packages": packages}
    header |= {"fingerprint": fingerprint, "fingerprint_before": before}
    header |= {"attempts": len(recorded), "attempts_bytes": recorded.size}
    changes = VerdictChanges()
    path = folder.path / SCORES
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(line({"v": SCHEMA_VERSION, "header": header}) + b"\n")
        scores, n = rescored(task, recorded, long_answers.assess), len(recorded)
        hidden = show_all or not messages.is_terminal
        first: list[VerdictChange] = []
        pairs = track(scores, "scoring", n, console=messages, transient=True, disable=hidden)
        for attempt, scored, verdicts in pairs:
            file.write(line(scored) + b"\n")
            found = changes.record(attempt, scored, verdicts)
            if found and show_all:  # printed immediately: there may be one per attempt
                output.print(change_line(found))
            elif found and len(first) < FIRST:
                first.append(found)
    long_answers.close()
    for found in first:
        output.print(change_line(found))
    if not show_all and changes.changed > FIRST:
        more = f"… and {changes.changed - FIRST:,} more; --all shows them."
        output.print(Text(more, style="dim"))
    if changes.changed:
        output.print()
    versions = manifest.get("packages", {}).get("harness", "unknown"), packages["harness"]
    show(changes_document(changes, versions))
    say(f"Scores in {path}")
    if changed_inputs:
        say("To continue the run with these scores, run its run file again.")
    raise typer.Exit(CHANGED if changes.changed else 0)
