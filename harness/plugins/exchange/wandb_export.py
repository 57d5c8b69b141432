"""Logs a run to Weights & Biases: its run file, metrics with intervals, and a table of samples."""

from __future__ import annotations

from pathlib import Path

from harness.analysis.exported_run import ExportedRows, ExportedRun, figures
from harness.errors import ConfigError
from harness.extras import import_extra
from harness.records import content_hash


def log_wandb(run: ExportedRun, rows: ExportedRows, project: str = "") -> str:
    """Log a run to Weights & Biases, or update its earlier export.

    ``project`` has the form ``PROJECT`` or ``ENTITY/PROJECT``. If it is empty, wandb chooses the
    project. Return the URL of the logged run or, if wandb is offline, the command that uploads it.
    """
    wandb = import_extra("wandb", "trackers")
    entity, _, name = project.rpartition("/")
    try:
        tracked = wandb.init(
            entity=entity or None,
            project=name or None,
            id=content_hash(run.manifest.get("id", run.name))[:16],  # the same run gets the same id
            resume="allow",
            name=run.name,
            group=run.task,
            job_type="evaluation",
            tags=["SIMULATED"] if run.simulated else None,
            config=run.config.model_dump(mode="json"),
            # Only the run itself: not this process's output, nor the repository in this folder.
            settings=wandb.Settings(
                console="off", disable_git=True, x_disable_meta=True, silent=True
            ),
        )
        table = wandb.Table(columns=list(rows.columns), data=list(rows))
        tracked.log({"samples": table})
        tracked.summary.update(figures(run.metrics))
        offline = f"to send it: wandb sync {Path(tracked.dir).parent}"
        place = offline if tracked.offline else str(tracked.url)
        tracked.finish()
    except wandb.Error as error:
        remedy = "Run 'wandb login', or set WANDB_MODE=offline."
        raise ConfigError(f"wandb cannot log the run: {error}", remedy) from None
    return place
