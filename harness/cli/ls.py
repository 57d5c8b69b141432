"""`harness ls`: list the runs."""

from __future__ import annotations

from msgspec.structs import replace
from rich.text import Text

from harness.analysis.metrics import Metrics, from_json
from harness.cli.console import messages, output
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.report.runs import runs_table
from harness.report.terminal import terminal
from harness.report.text import inert
from harness.store.run_folder import RunFolder, all_runs


def ls() -> None:
    """List the runs."""
    list_runs()


def list_runs() -> None:
    """Print a line per run, with the metrics last written."""
    root = Settings().runs_dir
    folders = all_runs(root)
    if not folders:
        messages.print(
            Text(f"No runs in {root}. Start one with 'harness run configs/quickstart.yaml'."),
            soft_wrap=True,
        )
        return
    output.print(terminal(runs_table({folder.name: _metrics(folder) for folder in folders})))


def _metrics(folder: RunFolder) -> Metrics | None:
    """Return a run's metrics if readable: a damaged run must not hide the others."""
    try:
        metrics = from_json(folder.metrics.read_bytes(), folder.metrics)
        # The metrics may predate the run's growth, or its being killed.
        complete, planned = folder.progress()
        return replace(metrics, complete=complete, n_planned=planned)
    except FileNotFoundError:
        return None
    except (HarnessError, OSError) as error:
        messages.print(inert(f"{folder.name}: {error}"))
        return None
