"""`harness run --dry-run`: what would be done."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from harness.assemble import Job
from harness.cli.console import output
from harness.report.transcript import inert_text
from harness.schedule.outlook import Outlook


def show_outlook(job: Job, outlook: Outlook, missing: Sequence[str]) -> None:
    """Print what a job would do.

    missing: secrets that a real run would need and that are not set.
    """
    run = job.run
    table = Table.grid(padding=(0, 2))
    rows = {
        "run": str(job.folder.path) + (" (continued)" if job.folder.begun() else ""),
        "task": run.task.name,
        "model": f"{run.model.name} by {run.model.backend} {job.backend.endpoint}".strip(),
        "instances": f"{outlook.instances:,}",
        "samples": f"{outlook.samples:,}, {outlook.owed_samples:,} of them owed",
        "calls of round 1": f"{outlook.calls:,} distinct, {outlook.cached:,} of them cached",
        "calls at most": f"{outlook.most_calls:,} with {run.rounds.max} round(s)",
        "input tokens": f"about {outlook.input_tokens:,} in round 1 (4 characters a token)",
    }
    if run.polish:
        rows["polished by"] = f"{run.polish.name}: a call more for each prompt and feedback"
    failed = outlook.golds_failed
    rows["gold answers"] = f"{outlook.golds - len(failed):,} of {outlook.golds:,} pass" + (
        f"; these fail: {', '.join(failed[:5])}{' …' if len(failed) > 5 else ''}" if failed else ""
    )
    if run.decoding.max_tokens:
        rows["output tokens"] = f"at most {outlook.most_calls * run.decoding.max_tokens:,}"
    if missing:
        rows["not set"] = f"{', '.join(missing)}: a real run needs it"
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(value))
    output.print(table)
    for message in outlook.first or ():
        output.print(Text(f"\nfirst prompt ({message.role}):", style="dim"))
        output.print(inert_text(message.content[:2000]), soft_wrap=True)
