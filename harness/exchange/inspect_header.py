"""What an Inspect log says of a whole run: task, model, data, and the metrics as they are here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.metrics import Mean, Metrics, Rate
from harness.config.run_file import RunFile
from harness.exchange.inspect_sample import HARNESS, inspect_usage, moment, sample_id, verdict_name

TOLD = (
    *("task", "model", "backend", "simulated", "measure", "variant", "fingerprint", "seed"),
    *("samples", "owed", "packages", "python", "started_at", "ended_at"),
)
"""What of a manifest goes with a run; not the machine that it was made on."""


def inspect_header(
    config: RunFile, manifest: Mapping[str, Any], metrics: Metrics, instances: Sequence[str]
) -> dict[str, Any]:
    """A log without its samples; its keys are in the order in which Inspect writes them.

    instances: their names, in the order of the log.
    """
    model = model_name(config)
    started, ended = (moment(manifest.get(key)) for key in ("started_at", "ended_at"))
    measured: dict[str, Rate | Mean] = {
        verdict_name(metrics.scores): metrics.overall,
        **metrics.scores,
    }
    names = [name for name, found in measured.items() if _mean(found) is not None]
    fingerprint = manifest.get("fingerprint", {})
    return {
        "version": 2,
        "status": "success" if metrics.complete else "cancelled",
        "eval": {
            "eval_id": manifest.get("id", metrics.run),
            "run_id": manifest.get("id", metrics.run),
            "created": started or moment(0),
            "task": metrics.task,
            "task_id": f"{metrics.task}-{metrics.run}",
            "task_version": 0,
            "task_display_name": f"{metrics.task} SIMULATED" if metrics.simulated else metrics.task,
            "task_attribs": {},
            "task_args": config.task.model_dump(mode="json", exclude={"name"}),
            "task_args_passed": {},
            "solver": "generate",
            "tags": ["SIMULATED"] if metrics.simulated else None,
            "dataset": {
                "name": str(fingerprint.get("dataset") or metrics.task),
                "samples": len(instances),
                "sample_ids": [sample_id(name) for name in instances],
                "shuffled": False,
            },
            "model": model,
            "model_generate_config": generate_config(config),
            "model_args": {},
            "config": {"epochs": config.samples, "log_samples": True},
            "packages": {"harness": str(manifest.get("packages", {}).get("harness", ""))},
            "metadata": {
                HARNESS: {
                    "v": 1,
                    "config": config.model_dump(mode="json"),
                    "manifest": {key: manifest[key] for key in TOLD if key in manifest},
                }
            },
            "scorers": [{"name": name, "metrics": [{"name": _metric(name)}]} for name in names],
        },
        "plan": {
            "name": "plan",
            "steps": [{"solver": "generate", "params": {}, "params_passed": {}}],
            "config": generate_config(config),
        },
        "results": {
            "total_samples": metrics.n_samples,
            "completed_samples": metrics.n_samples - metrics.overall.not_judged,
            "scores": [_score(name, measured[name], metrics) for name in names],
        },
        "stats": {
            "started_at": started or "",
            "completed_at": ended or "",
            "model_usage": {model: inspect_usage(metrics.usage, metrics.cost_usd)}
            if metrics.usage
            else {},
            "role_usage": {},
        },
        "invalidated": False,
        "tags": ["SIMULATED"] if metrics.simulated else [],
        "metadata": {},
    }


def model_name(config: RunFile) -> str:
    """The model as Inspect names it: after its backend."""
    return (
        f"{config.model.backend}/{config.model.name}"
        if config.model.name
        else (config.model.backend)
    )


def generate_config(config: RunFile) -> dict[str, Any]:
    """The decoding; what the provider chose is not there."""
    given = config.decoding.given()
    found = {key: given[key] for key in ("temperature", "max_tokens", "top_p") if key in given}
    return found | ({"stop_seqs": list(given["stop"])} if "stop" in given else {})


def _mean(found: Rate | Mean) -> float | None:
    return found.pass_rate if isinstance(found, Rate) else found.mean


def _metric(name: str) -> str:
    return "pass_rate" if name.endswith("passed") else "mean"


def _score(name: str, found: Rate | Mean, metrics: Metrics) -> dict[str, Any]:
    is_rate = isinstance(found, Rate)
    told: dict[str, float | None] = {_metric(name): _mean(found), "stderr": found.stderr}
    if found.ci95 is not None:
        told |= {"ci95_low": found.ci95[0], "ci95_high": found.ci95[1]}
    if is_rate:
        told |= {f"pass_at_{k}": value for k, value in metrics.pass_at_k.items()}
    missing = found.not_judged if isinstance(found, Rate) else found.not_measured
    return {
        "name": name,
        "scorer": name,
        "scored_samples": found.n,
        "unscored_samples": missing,
        "params": {},
        "metrics": {
            key: {"name": key, "value": value, "params": {}}
            for key, value in told.items()
            if value is not None
        },
    }
