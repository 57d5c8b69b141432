"""`harness ls`: list the runs."""

from __future__ import annotations

from msgspec.structs import replace

from harness.analysis.metrics import Metrics, from_json
from harness.cli.console import say, show
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.report.runs import runs_table
from harness.store.run_folder import RunFolder, all_runs


def ls() -> None:
    """List the runs."""
    root = Settings().runs_dir
    folders = all_runs(root)
    if folders:
        show(runs_table({folder.name: _metrics(folder) for folder in folders}))
    else:
        say(f"No runs in {root}. Start one with 'harness run configs/quickstart.yaml'.")


def _metrics(folder: RunFolder) -> Metrics | None:
    """Return the metrics last written, if readable: a damaged run must not hide the others."""
    try:
        metrics = from_json(folder.metrics.read_bytes(), folder.metrics)
        # The metrics may predate the run's growth, or its being killed.
        complete, planned = folder.progress()
        return replace(metrics, complete=complete, n_planned=planned)
    except FileNotFoundError:
        return None
    except (HarnessError, OSError) as error:
        say(f"{folder.name}: {error}")
        return None
