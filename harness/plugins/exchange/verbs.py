"""`harness export` and `harness import`: runs in the formats of other tools."""

import json
import re
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
import typer
import yaml

import harness
from harness.analysis.metrics import PASS_RATE, Metrics
from harness.cli.options import Runs
from harness.config.run_file import flatten
from harness.config.settings import Settings
from harness.engine.resolving import row_fields
from harness.engine.run_files import find_named_runs
from harness.errors import ConfigError, DataInvalid, DataMissing, import_extra, suggest_name
from harness.plugins.exchange.exported_run import (
    ExportedRows,
    ExportedRun,
    exported_run,
    write_csv,
    write_parquet,
)
from harness.plugins.exchange.imported_run import refuse_existing, write_run
from harness.plugins.exchange.inspect_export import write_inspect
from harness.plugins.exchange.inspect_import import is_inspect_log, read_inspect
from harness.plugins.exchange.lm_eval import is_lm_eval, read_lm_eval
from harness.records import content_hash
from harness.store.files import replace_output
from harness.store.run_folder import RunFolder
from harness.terminal.console import ExactOutput, say

ExportFormat = Literal["parquet", "csv", "inspect", "hf-eval-results", "wandb", "mlflow"]
FORMATS: dict[str, ExportFormat] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".eval": "inspect",
    ".json": "inspect",
    ".yaml": "hf-eval-results",
}
"""The export format for each file suffix."""
STDOUT = "-"
TABLES = ("parquet", "csv")  # of several runs
SINGLE = ("inspect", "hf-eval-results")  # files that hold one run
TRACKERS = ("wandb", "mlflow")  # where --output is a project, not a file
WITH_ATTEMPTS = (*TABLES, *TRACKERS)


def export(
    runs: Runs,
    file: Annotated[str, typer.Option("--output", metavar="FILE")] = "",
    form: Annotated[ExportFormat | None, typer.Option("--format")] = None,
    attempts: bool = False,
    field: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None,
) -> None:
    """Write runs as a table of samples, or in another tool's format, or log them to a tracker.

    Args:
        file: Output file, replaced if it exists; - writes CSV to stdout. For wandb, the project,
            and for mlflow, the experiment (default: the tracker's setting).
        form: Output format (default: determined by the suffix of FILE).
        attempts: Write a row for every attempt, not only each sample's last one (csv, parquet,
            wandb, mlflow).
        field: Set a field of the exported result (hf-eval-results); repeatable.
    """
    if form is None:
        form = "csv" if file == STDOUT else FORMATS.get(Path(file.lower()).suffix)
    folders = find_named_runs(runs, Settings())
    fields = dict(_field(text) for text in field or ())
    _check(form, file, attempts, fields, len(folders))
    warn = [say] if form in WITH_ATTEMPTS else []  # others use the order of the rows only
    exported = []
    for folder in folders:
        exported.append(replace(exported_run(folder), rows=row_fields(folder, *warn)))
    if form in TRACKERS:
        log = log_wandb if form == "wandb" else log_mlflow
        for run in exported:
            say(f"{run.name}: {log(run, ExportedRows([run], attempts=attempts), file)}")
        return
    path = Path(file)
    if form == "hf-eval-results":
        value = write_hf_results(exported[0], path, fields)
        say(f"{value:.4g} in {file}, for .eval_results/ in the model's repository")
        return
    attempts = attempts or form == "inspect"
    rows = ExportedRows(exported, attempts=attempts)
    if form == "inspect":
        write_inspect(exported[0], path)
    elif form == "parquet":
        write_parquet(rows, path)
    elif file == STDOUT:
        sys.stdout.reconfigure(encoding="utf-8", newline="")  # type: ignore[union-attr]
        write_csv(rows, ExactOutput())
        return
    else:
        with replace_output(path) as new, new.open("w", encoding="utf-8", newline="") as out:
            write_csv(rows, out)
    say(f"{len(rows):,} {'attempts' if attempts else 'samples'} in {file}")


def _field(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--field {text}: not KEY=VALUE.", "Write --field KEY=VALUE.")
    return key.strip(), value.strip()


def _check(
    form: ExportFormat | None, file: str, attempts: bool, fields: Mapping[str, str], runs: int
) -> None:
    if not file and form not in TRACKERS:
        raise ConfigError("The output file is missing.", "Name it: --output NAME.csv")
    if form is None:
        remedy = f"Use --format: {', '.join(get_args(ExportFormat))}."
        raise ConfigError(f"--output {file}: its suffix does not name a format.", remedy)
    if file == STDOUT and form != "csv":
        remedy = "Name a file with --output; only csv can go to stdout."
        raise ConfigError(f"{form} cannot be written to stdout.", remedy)
    if attempts and form not in WITH_ATTEMPTS:
        remedy = f"Use it with {', '.join(WITH_ATTEMPTS)}."
        raise ConfigError(f"--attempts has no effect on {form}.", remedy)
    if fields and form != "hf-eval-results":
        remedy = "Use it with hf-eval-results."
        raise ConfigError(f"--field: {form} has no fields to set.", remedy)
    if form in SINGLE and runs > 1:
        raise ConfigError(f"{form} holds one run per file.", "Export the runs one by one.")


def import_(
    file: Path,
    form: Annotated[Literal["inspect", "lm-eval"] | None, typer.Option("--format")] = None,
    name: str = "",
    task: str = "",
    score: str = "",
) -> None:
    """Import another tool's results as a run, which can be shown and compared like any other.

    Args:
        file: An Inspect log (.eval, .json) or lm-eval's samples (.jsonl).
        form: Format of the file (default: detected).
        name: The run's name (default: the file's).
        task: The task's name (default: from the file).
        score: The score that decides which answers passed (default: the file's first).
    """
    root = Settings().runs_dir
    name = name or re.sub(r"[^\w.-]+", "_", file.stem).lstrip(".-")[:100] or "imported"
    refuse_existing(RunFolder(root, name))
    if form == "inspect" or (form is None and is_inspect_log(file)):
        imported = read_inspect(file, task, score)
    elif form == "lm-eval" or is_lm_eval(file):
        imported = read_lm_eval(file, task, score)
    else:
        remedy = "If it is one of these, name it with --format: inspect, lm-eval."
        raise DataInvalid(f"{file}: neither an Inspect log nor lm-eval's samples.", remedy)
    folder = write_run(root, name, file, imported)
    for note in imported.notes:
        say(note, "yellow")
    task = imported.config.task.name
    say(f"Imported {imported.format} as the run {folder.name!r}, task {task}: {folder.path}")


def figures(metrics: Metrics) -> dict[str, float]:
    """Return the known metrics of a run by name, such as ``pass_rate/stderr``."""
    values: dict[str, float | None] = {}
    for name, metric in {**metrics.scores, PASS_RATE: metrics.overall}.items():
        values |= {name: metric.mean, f"{name}/stderr": metric.stderr, f"{name}/n": metric.n}
        values |= _interval(name, metric.ci95)
    for k, rate in metrics.pass_at_k.items():
        values |= {f"pass@{k}": rate, **_interval(f"pass@{k}", metrics.pass_at_k_ci95.get(k))}
    values |= {f"pass^{k}": rate for k, rate in metrics.pass_hat_k.items()}
    values |= {f"any@{k}": rate for k, rate in metrics.rounds.any_of_first_k.items()}
    values |= {f"outcomes/{outcome}": count for outcome, count in metrics.outcomes.items()}
    for name in ("n_instances", "n_samples", "n_attempts", "n_calls", "cost_usd"):
        values[name] = getattr(metrics, name)
    if metrics.usage is not None:
        values |= msgspec.structs.asdict(metrics.usage)
    return {name: float(value) for name, value in values.items() if value is not None}


def _interval(name: str, ci95: tuple[float, float] | None) -> dict[str, float]:
    if ci95 is None:
        return {}
    return {f"{name}/ci95_low": ci95[0], f"{name}/ci95_high": ci95[1]}


def checked_fields(
    form: str, fields: Mapping[str, str], allowed: Collection[str], required: Collection[str] = ()
) -> None:
    """Raise ConfigError if a field is not in ``known``, or a required one is missing or empty."""
    for name in fields:
        if name not in allowed:
            raise ConfigError(f"{form} has no field {name!r} to set.", suggest_name(name, allowed))
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
    with replace_output(path) as new:
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
    parameters = {}
    for name, value in flatten(tree).items():
        text = value if isinstance(value, str) else json.dumps(value)
        parameters[_name(name)] = text[:MOST_CHARACTERS]
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
            metrics = figures(run.metrics)
            mlflow.log_metrics({_name(name): value for name, value in metrics.items()})
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
