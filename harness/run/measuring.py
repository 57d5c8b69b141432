"""A run's metrics from its attempts as they are now: a killed run has written none."""

from __future__ import annotations

from typing import Any

from harness.analysis.metrics import Metrics
from harness.analysis.summary import RunFacts, summarise
from harness.store.calls import NO_CALLS, CallTotals, read_columns
from harness.store.columns import AttemptTable
from harness.store.index import read_attempts
from harness.store.run_folder import JUDGES, REFERENCES, RunFolder


def measure(folder: RunFolder) -> Metrics:
    """The metrics of a run as its attempts are now."""
    attempts, calls = read_columns(folder.attempts)
    return summary_of(folder, attempts, calls)


def measured(folder: RunFolder, *, grouped: bool = True) -> tuple[Metrics, AttemptTable]:
    """The metrics of a run, which know of no tokens and costs, and its attempts.

    What comparing needs: to read the calls, too, takes half as long again.

    grouped: also of each label's groups.
    """
    attempts = read_attempts(folder.attempts)
    return summary_of(folder, attempts, NO_CALLS, grouped=grouped), attempts


def summary_of(
    folder: RunFolder, attempts: AttemptTable, calls: CallTotals, *, grouped: bool = True
) -> Metrics:
    """The metrics of a run whose attempts and calls were read; grouped: as of `measured`."""
    manifest = folder.read_manifest()
    complete, planned = folder.progress()
    facts = RunFacts(
        run=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        complete=complete,
        n_planned=planned,
        n_owed=folder.owed(),
        measure=manifest.get("measure"),
        **_judges(folder),
    )
    return summarise(attempts, calls, facts, grouped=grouped, references=_golds(folder))


def _golds(folder: RunFolder) -> AttemptTable | None:
    """The gold answers that judges have scored; None where there are none."""
    if not (folder.path / REFERENCES).is_dir():
        return None
    from harness.store.references import references_folder

    return read_attempts(references_folder(folder).attempts)


def _judges(folder: RunFolder) -> dict[str, Any]:
    """The run's judges, each with the name of its model, and its panels, each with its judges'."""
    if not (folder.path / JUDGES).exists():
        return {}
    from harness.store.judgements import read_register  # a run without judges spares the import

    known = read_register(folder.path).judges
    panels = {name: one.section["of"] for name, one in known.items() if "model" not in one.section}
    judges = {name: one.model for name, one in known.items() if name not in panels}
    return {"judges": judges, "panels": panels}
