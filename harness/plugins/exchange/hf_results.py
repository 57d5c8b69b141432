"""Writes a run's result as an entry for a model repository's ``.eval_results/`` on Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from pathlib import Path

import yaml

import harness
from harness.analysis.exported_run import ExportedRun, checked_fields, figures
from harness.analysis.metrics import PASS_RATE, Metrics
from harness.errors import ConfigError, DataMissing
from harness.extras import import_extra
from harness.store.files import output_file

FROM_THE_RUN = ("value",)  # fields that cannot be set by hand


def write_hf_results(run: ExportedRun, path: Path, fields: Mapping[str, str]) -> float:
    """Write a run's primary metric as a YAML list with one entry, and return the metric's value.

    ``fields`` are those of `huggingface_hub.EvalResultEntry`, except ``value``. ``dataset_id`` and
    ``task_id`` are required.
    """
    hub = import_extra("huggingface_hub", "exchange")
    known = {field.name for field in fields_of(hub.EvalResultEntry)} - set(FROM_THE_RUN)
    checked_fields("hf-eval-results", fields, known, ["dataset_id", "task_id"])
    metrics, manifest = run.metrics, run.manifest
    if metrics.simulated:
        problem = f"The answers of the run {metrics.run!r} are simulated."
        raise ConfigError(problem, "A leaderboard accepts only results of real models.")
    found, measure = figures(metrics), metrics.measure or PASS_RATE
    if measure not in found:
        raise DataMissing(f"The run {metrics.run!r} has no value of its measure {measure!r}.")
    ended = manifest.get("ended_at") or manifest.get("started_at")
    date = datetime.fromtimestamp(ended, UTC).isoformat(timespec="seconds") if ended else None
    given = {"date": date, "notes": _notes(metrics, measure, found), **fields}
    try:
        entry = hub.EvalResultEntry(value=found[measure], **given)
    except ValueError as error:
        raise ConfigError(f"huggingface_hub refuses the entry: {error}") from None
    content = yaml.safe_dump(hub.eval_result_entries_to_yaml([entry]), sort_keys=False)
    with output_file(path) as new:
        new.write_text(content, encoding="utf-8")
    return found[measure]


def _notes(metrics: Metrics, measure: str, found: Mapping[str, float]) -> str:
    parts = [f"{measure} as a fraction"]
    if f"{measure}/ci95_low" in found:
        low, high = found[f"{measure}/ci95_low"], found[f"{measure}/ci95_high"]
        parts.append(f"95% CI {low:.3f} to {high:.3f}")
    parts.append(f"{metrics.n_samples:,} samples")
    if not metrics.complete:
        parts.append(f"incomplete: {metrics.progress}")
    return f"{', '.join(parts)}; harness-instruct {harness.__version__}"
