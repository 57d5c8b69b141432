"""Logs a run to MLflow: its run file, metrics with intervals, and a table of samples."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import yaml

from harness.analysis.exported_run import ExportedRows, ExportedRun, figures, write_csv
from harness.config.run_file import flatten
from harness.errors import ConfigError
from harness.extras import import_extra
from harness.records import content_hash

EXPORT = "harness.export"  # the tag by which a later export finds the run
MOST_CHARACTERS = 500  # of a parameter's value; the whole run file is an artifact


def log_mlflow(run: ExportedRun, rows: ExportedRows, experiment: str = "") -> str:
    """Log a run to MLflow, or update its earlier export.

    MLflow's parameters cannot change, so a run whose run file has changed since the export is
    logged as another run. If ``experiment`` is empty, MLflow chooses it. Return where the run is
    logged.
    """
    mlflow = import_extra("mlflow", "trackers")
    tree = run.config.model_dump(mode="json")
    key = content_hash([run.manifest.get("id", run.name), tree])
    parameters = {
        _name(name): (value if isinstance(value, str) else json.dumps(value))[:MOST_CHARACTERS]
        for name, value in flatten(tree).items()
    }
    tags = {EXPORT: key, "harness.run": run.name, "harness.simulated": json.dumps(run.simulated)}
    try:
        if experiment:
            mlflow.set_experiment(experiment)
        found = mlflow.search_runs(
            filter_string=f"tags.`{EXPORT}` = '{key}'", output_format="list", max_results=1
        )
        known = found[0].info.run_id if found else None
        with (
            tempfile.TemporaryDirectory() as folder,
            mlflow.start_run(run_id=known, run_name=run.name, tags=tags, log_system_metrics=False),
        ):
            mlflow.log_params(parameters)
            mlflow.log_metrics({_name(name): value for name, value in figures(run.metrics).items()})
            Path(folder, "config.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
            with Path(folder, "samples.csv").open("w", encoding="utf-8", newline="") as file:
                write_csv(rows, file)
            mlflow.log_artifacts(folder)
            logged = mlflow.active_run().info
    except mlflow.exceptions.MlflowException as error:
        remedy = "MLFLOW_TRACKING_URI says where runs are logged."
        reason = str(error).splitlines()[0][:300]
        raise ConfigError(f"MLflow cannot log the run: {reason}", remedy) from None
    return f"{mlflow.get_tracking_uri()}, experiment {logged.experiment_id}, run {logged.run_id}"


def _name(name: str) -> str:
    return re.sub(r"[^\w\-. /]", "_", name)
