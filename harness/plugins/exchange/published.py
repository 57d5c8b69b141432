"""Publishes a run's figures: on the Hugging Face Hub, in MLflow and in Weights & Biases."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from pathlib import Path

import yaml

import harness
from harness.analysis.metrics import PASS_RATE, Metrics
from harness.config.run_file import flatten
from harness.errors import ConfigError, DataMissing, import_extra, nearest
from harness.plugins.exchange.exported_run import ExportedRows, ExportedRun, write_csv
from harness.records import Usage, content_hash
from harness.store.files import output_file


def figures(metrics: Metrics) -> dict[str, float]:
    """Return the known metrics of a run by name, such as ``pass_rate/stderr``."""
    values: dict[str, float | None] = {}
    for name, metric in {**metrics.scores, PASS_RATE: metrics.overall}.items():
        low, high = metric.ci95 or (None, None)
        values |= {name: metric.mean, f"{name}/stderr": metric.stderr, f"{name}/n": metric.n}
        values |= {f"{name}/ci95_low": low, f"{name}/ci95_high": high}
    for k, rate in metrics.pass_at_k.items():
        low, high = metrics.pass_at_k_ci95.get(k) or (None, None)
        values |= {f"pass@{k}": rate, f"pass@{k}/ci95_low": low, f"pass@{k}/ci95_high": high}
    values |= {f"pass^{k}": rate for k, rate in metrics.pass_hat_k.items()}
    values |= {f"any@{k}": rate for k, rate in metrics.rounds.any_of_first_k.items()}
    values |= {f"outcomes/{outcome}": count for outcome, count in metrics.outcomes.items()}
    counted = ("n_instances", "n_samples", "n_attempts", "n_calls", "cost_usd")
    values |= {name: getattr(metrics, name) for name in counted}
    if metrics.usage is not None:
        values |= {name: getattr(metrics.usage, name) for name in Usage.__struct_fields__}
    return {name: float(value) for name, value in values.items() if value is not None}


def checked_fields(
    form: str, fields: Mapping[str, str], allowed: Collection[str], required: Collection[str] = ()
) -> None:
    """Raise ConfigError if a field is not in ``known``, or a required one is missing or empty."""
    for name in fields:
        if name not in allowed:
            raise ConfigError(f"{form} has no field {name!r} to set.", nearest(name, allowed))
    for name in required:
        if not fields.get(name):
            problem = f"{form} requires the field {name!r}, which a run does not record."
            raise ConfigError(problem, f"Set it with --field {name}=VALUE.")


FROM_THE_RUN = ("value",)  # fields that cannot be set by hand


def write_hf_results(run: ExportedRun, path: Path, fields: Mapping[str, str]) -> float:
    """Write a run's primary metric as a YAML list with one entry, and return the metric's value.

    ``fields`` are those of `huggingface_hub.EvalResultEntry`, except ``value``. ``dataset_id`` and
    ``task_id`` are required.
    """
    hub = import_extra("huggingface_hub", "exchange")
    allowed = {field.name for field in fields_of(hub.EvalResultEntry)} - set(FROM_THE_RUN)
    checked_fields("hf-eval-results", fields, allowed, ["dataset_id", "task_id"])
    metrics = run.metrics
    manifest = run.manifest
    if metrics.simulated:
        problem = f"The answers of the run {metrics.run!r} are simulated."
        raise ConfigError(problem, "A leaderboard accepts only results of real models.")
    values = figures(metrics)
    measure = metrics.measure or PASS_RATE
    if measure not in values:
        raise DataMissing(f"The run {metrics.run!r} has no value of its measure {measure!r}.")
    ended = manifest.get("ended_at") or manifest.get("started_at")
    date = datetime.fromtimestamp(ended, UTC).isoformat(timespec="seconds") if ended else None
    entry_fields = {"date": date, "notes": _notes(metrics, measure, values), **fields}
    try:
        entry = hub.EvalResultEntry(value=values[measure], **entry_fields)
    except ValueError as error:
        raise ConfigError(f"huggingface_hub refuses the entry: {error}") from None
    content = yaml.safe_dump(hub.eval_result_entries_to_yaml([entry]), sort_keys=False)
    with output_file(path) as new:
        new.write_text(content, encoding="utf-8")
    return values[measure]


def _notes(metrics: Metrics, measure: str, values: Mapping[str, float]) -> str:
    parts = [f"{measure} as a fraction"]
    if f"{measure}/ci95_low" in values:
        low = values[f"{measure}/ci95_low"]
        high = values[f"{measure}/ci95_high"]
        parts.append(f"95% CI {low:.3f} to {high:.3f}")
    parts.append(f"{metrics.n_samples:,} samples")
    if not metrics.complete:
        parts.append(f"incomplete: {metrics.progress}")
    return f"{', '.join(parts)}; harness-instruct {harness.__version__}"


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
        earlier_runs = mlflow.search_runs(
            filter_string=f"tags.`{EXPORT}` = '{key}'", output_format="list", max_results=1
        )
        earlier_id = earlier_runs[0].info.run_id if earlier_runs else None
        with (
            tempfile.TemporaryDirectory() as folder,
            mlflow.start_run(
                run_id=earlier_id, run_name=run.name, tags=tags, log_system_metrics=False
            ),
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
            group=run.manifest.get("task", ""),
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
