"""Writes a run as a record of Every Eval Ever (evalevalai.com), schema version 0.3.0.

A record is two files in the layout of that project's data store. The results, with their confidence
intervals, are in ``data/TASK/DEVELOPER/MODEL/UUID.json``. The samples are in ``UUID_samples.jsonl``
beside it, with one line for each sample and result.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.analysis.exported_run import ExportedRun, checked_fields, conversation, prompt
from harness.analysis.metrics import PASS_RATE
from harness.config.run_file import RunFile
from harness.errors import ConfigError, DataMissing, StoreFailed
from harness.records import Attempt, Usage
from harness.store.files import OUTPUT_REMEDY, make_folder, output_file

VERSION = "0.3.0"
ORGANISATION = "source_organization_name"
CHOICES: Mapping[str, tuple[str, ...]] = {
    "evaluator_relationship": ("first_party", "third_party", "collaborative", "other"),
    "deployment_type": ("self_deployed", "externally_managed", "unknown"),
    "model_availability": ("open_weights", "closed_weights", "unknown"),
}
FIELDS = (
    *(ORGANISATION, "source_organization_url", "model_id", "developer", "inference_platform"),
    *CHOICES,
)
"""Fields that the user may set, because a run does not record them or can only guess them."""
GENERATION = ("temperature", "top_p", "max_tokens")  # decoding parameters with a field


def write_every_eval_ever(
    run: ExportedRun, folder: Path, fields: Mapping[str, str]
) -> tuple[Path, int, int]:
    """Write a run's record below ``folder``, replacing any earlier record of the run.

    ``fields`` are the values of `FIELDS` that the user sets. Return the path of the results, the
    number of samples written, and the number skipped because no result has a value for them.
    """
    checked_fields("eee", fields, FIELDS, [ORGANISATION])
    for name, choices in CHOICES.items():
        if fields.get(name, choices[0]) not in choices:
            raise ConfigError(f"The field {name!r} is one of: {', '.join(choices)}.")
    manifest, model = run.manifest, _model(run.config, fields)
    run_id = str(manifest.get("id", run.name))
    written_at = f"{manifest.get('ended_at') or manifest.get('started_at') or 0:.0f}"
    common = {"schema_version": VERSION, "evaluation_id": f"{run.task}/{model['id']}/{written_at}"}
    results = list(_results(run))
    if not results:
        raise DataMissing(f"The run {run.name!r} has no verdict and no score to export.")
    digest = hashlib.blake2b(run_id.encode(), digest_size=16).digest()
    name = str(uuid.UUID(bytes=digest, version=4))  # the same run gets the same name again
    developer, _, rest = model["id"].partition("/")
    place = Path("data", *map(_part, (run.task, developer, rest)))
    samples = place / f"{name}_samples.jsonl"
    try:
        make_folder(folder / place)
    except OSError as error:
        raise StoreFailed(f"Cannot write {folder}: {error.strerror}.", OUTPUT_REMEDY) from None
    rows = written = skipped = 0
    checksum = hashlib.sha256()
    with output_file(folder / samples) as new, new.open("wb") as file:
        for rounds in run.samples(Attempt):
            lines = list(_lines(rounds, run.task, [one["evaluation_result_id"] for one in results]))
            written, skipped = written + bool(lines), skipped + (not lines)
            for line in lines:
                text = msgspec.json.encode({**common, "model_id": model["id"], **line}) + b"\n"
                rows += 1
                checksum.update(text)
                file.write(text)
    record = {
        **common,
        "evaluation_timestamp": f"{manifest.get('started_at') or 0:.0f}",
        "retrieved_timestamp": written_at,
        "source_metadata": _source(run, fields),
        "eval_library": {
            "name": "harness-instruct",
            "version": str(manifest.get("packages", {}).get("harness", "unknown")),
        },
        "model_info": model,
        "evaluation_results": results,
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": samples.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": checksum.hexdigest(),
            "total_rows": rows,
        },
    }
    path = folder / place / f"{name}.json"
    with output_file(path) as new:
        new.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    return path, written, skipped


def _part(name: str) -> str:
    """Return a name as one component of a path."""
    return re.sub(r"[^\w.+-]", "_", name).strip(".") or "unknown"


def _model(config: RunFile, fields: Mapping[str, str]) -> dict[str, Any]:
    section = config.model
    name = section.name or section.backend
    model_id = fields.get("model_id") or (name if "/" in name else f"{section.backend}/{name}")
    if not all(model_id.partition("/")):
        raise ConfigError(f"The model's id {model_id!r} is not DEVELOPER/NAME.", "Set model_id.")
    ours = section.backend.startswith("vllm")
    hosted = section.backend in ("anthropic", "openai") and "base_url" not in section.options
    deployment = "self_deployed" if ours else "externally_managed" if hosted else "unknown"
    return {
        "name": name,
        "id": model_id,
        "developer": fields.get("developer") or model_id.partition("/")[0],
        "inference_platform": fields.get("inference_platform") or section.backend,
        **({"inference_engine": {"name": "vLLM"}} if ours else {}),
        "additional_details": {
            "deployment_type": fields.get("deployment_type", deployment),
            "model_availability": fields.get("model_availability", "unknown"),
            "backend": section.backend,
        },
    }


def _source(run: ExportedRun, fields: Mapping[str, str]) -> dict[str, Any]:
    url = fields.get("source_organization_url")
    return {
        "source_name": run.name,
        "source_type": "evaluation_run",
        ORGANISATION: fields[ORGANISATION],
        **({"source_organization_url": url} if url else {}),
        "evaluator_relationship": fields.get("evaluator_relationship", "third_party"),
        "additional_details": {
            "simulated": _text(run.simulated),
            "complete": _text(run.metrics.complete),
            "progress": run.metrics.progress,
            "config_sha256": str(run.manifest.get("config_sha256", "")),
            **{key: str(value) for key, value in run.manifest.get("fingerprint", {}).items()},
        },
    }


def _data(config: RunFile) -> dict[str, Any]:
    from harness.datasets.catalogue import CATALOGUE  # reading it takes a while

    task, options = config.task.name, config.task.options
    details = {key: _text(value) for key, value in options.items()} | {"instances": "builtin"}
    found = CATALOGUE.get(task)
    if found is not None and options.get("dataset", "builtin") == found.option:
        details["instances"] = "published"
        urls = [found.home, *(original.url for original in found.originals)]
        place = {"source_type": "url", "url": urls}
    else:
        place = {"source_type": "other"}
    return {"dataset_name": task, **place, "additional_details": details}


def _results(run: ExportedRun) -> Iterator[dict[str, Any]]:
    config, metrics = run.config, run.metrics
    given = config.decoding.given()
    set_up = {
        "samples": config.samples,
        "rounds": config.rounds.max,
        "shots": config.task.shots.n,
        "seed": config.seed,
        **{key: value for key, value in given.items() if key not in GENERATION},
        **({"judges": [judge.model_dump() for judge in config.judges]} if config.judges else {}),
    }
    always = {
        "evaluation_name": run.task,
        "source_data": _data(config),
        "generation_config": {
            "generation_args": {key: given[key] for key in GENERATION if key in given},
            "additional_details": {key: _text(value) for key, value in set_up.items()},
        },
    }
    unit = {"lower_is_better": False, "metric_unit": "proportion", "metric_kind": "pass_rate"}
    unit |= {"score_type": "continuous", "min_score": 0.0, "max_score": 1.0}
    for name, one in {PASS_RATE: metrics.overall, **metrics.scores}.items():
        if one.mean is None:
            continue
        rate = {"metric_id": PASS_RATE, **unit}
        mean = {"metric_id": f"{run.task}.{name}", "lower_is_better": False}
        details = {"clusters": one.n_clusters, "samples_without_a_value": one.missing}
        yield always | {
            "evaluation_result_id": name,
            "metric_config": {"metric_name": name, **(rate if name == PASS_RATE else mean)},
            "score_details": {
                "score": one.mean,
                "details": {key: _text(number) for key, number in details.items()},
                "uncertainty": _uncertainty(one.stderr, one.ci95, one.n),
            },
        }
    for k, value in metrics.pass_at_k.items():
        if k == 1:
            continue  # differs from the pass rate only in its weights
        interval = metrics.pass_at_k_ci95.get(k), metrics.n_of_k(k)
        yield always | {
            "evaluation_result_id": f"pass@{k}",
            "metric_config": {
                "metric_name": f"pass@{k}",
                "metric_id": "pass_at_k",
                "metric_parameters": {"k": k},
                **unit,
            },
            "score_details": {
                "score": value,
                "uncertainty": _uncertainty(metrics.pass_at_k_stderr.get(k), *interval),
            },
        }


def _uncertainty(stderr: float | None, ci95: tuple[float, float] | None, n: int) -> dict[str, Any]:
    found: dict[str, Any] = {"num_samples": n}
    if stderr is not None:
        found["standard_error"] = {"value": stderr, "method": "clustered by prompt"}
    if ci95 is not None:
        low, high = ci95
        found["confidence_interval"] = {"lower": low, "upper": high, "confidence_level": 0.95}
    return found


def _lines(
    rounds: Sequence[Attempt], task: str, results: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a line for each of the ``results`` that a sample has."""
    last = rounds[-1]
    values: dict[str, tuple[float, bool]] = {}
    for name, score in last.scores.items():
        if score.value is not None and name in results:
            passed = last.passed if score.passed is None else score.passed
            values[name] = float(score.value), passed is True
    if last.passed is not None and PASS_RATE in results:
        values[PASS_RATE] = float(last.passed), last.passed
    asked, text, several = prompt(rounds), last.text or "", len(rounds) > 1
    raw = asked[-1]["content"] if asked else ""
    source, turns = "output.raw", []
    if several:
        turns = [*conversation(rounds), {"role": "assistant", "content": text}]
        source = "messages[turn_idx].content"
    usages = [one.usage for one in rounds if one.usage is not None]
    trace = {"reasoning_trace": [last.reasoning]} if last.reasoning else {}
    line: dict[str, Any] = {
        "evaluation_name": task,
        "sample_id": last.instance,
        "sample_hash": hashlib.sha256(raw.encode()).hexdigest(),
        "interaction_type": "multi_turn" if several else "single_turn",
        "input": {
            "raw": raw,
            "formatted": json.dumps(asked, ensure_ascii=False) if len(asked) > 1 else None,
            "reference": [],
        },
        "output": None if several else {"raw": [text], **trace},
        "messages": [{"turn_idx": i, **turn} for i, turn in enumerate(turns)] if several else None,
        "answer_attribution": [
            {
                "turn_idx": max(len(turns) - 1, 0),
                "source": source,
                "extracted_value": text,
                "extraction_method": "none",
                "is_terminal": True,
            }
        ],
        "token_usage": _usage(sum(usages[1:], usages[0])) if usages else None,
        "performance": {"latency_ms": last.latency_s * 1000} if last.latency_s else None,
        "error": last.error,
        "metadata": {
            **last.groups,
            "sample": str(last.sample),
            "outcome": last.outcome,
            "cluster": last.cluster,
        },
    }
    for name, (value, passed) in values.items():
        verdict = {"score": value, "is_correct": passed, "num_turns": len(rounds)}
        yield {**line, "evaluation_result_id": name, "evaluation": verdict}


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens_cache_read": usage.cached_input_tokens,
        "input_tokens_cache_write": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _text(value: object) -> str:
    """Return a value as a string, as the schema requires in free fields."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
