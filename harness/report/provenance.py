"""Tables of how runs were made: settings, differences, origins and package versions, in words."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.analysis.metrics import plugin_of
from harness.config.run_file import flatten
from harness.errors import HarnessError
from harness.plugin_loader import kind
from harness.report.runs import ReportedRun
from harness.report.table import Cell, Table, table

_TIMES = ("started_at", "ended_at")
_EMPTY: tuple[object, ...] = (None, False, "", [], {})
_NAMES = {
    "model.name": "model",
    "rounds.max": "rounds",
    "task.shots": "few-shot examples",
    "task.system": "system message",
    "task.prompt": "prompt",
    "task.extract": "extraction",
    "task.checks": "checks",
    "decoding.temperature": "temperature",
    "decoding.max_tokens": "token limit",
    "decoding.constraint": "constrained decoding",
}
_ELSEWHERE = ("run", "sessions", "packages", "host.name", "variant")  # shown elsewhere or private


def differences(runs: Sequence[ReportedRun]) -> Table | None:
    """Return a table of settings that differ, or None if none do."""
    rows = []
    for key, (first, *others) in _differing(runs).items():
        cells = [Cell(in_words(value), style="dim" * (value == first)) for value in others]
        rows.append([Cell(_setting(key), title=key), in_words(first), *cells])
    names = 1 + len(runs)
    columns = ["setting", *(run.name for run in runs)]
    return table(columns, rows, title="Settings that differ", names=names) if rows else None


def _differing(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
    """Return the settings that differ between runs, each with its value for every run.

    For runs of several tasks, options that have their task's default value count as not set.
    """
    flat = [flatten({key: _nested(key, value) for key, value in run.settings.items()})
            for run in runs]  # fmt: skip
    tasks = [run.metrics.task for run in runs]
    if len(set(tasks)) > 1:
        known = {task: _defaults(task) for task in tasks}
        flat = [
            {k: v for k, v in own.items() if k not in known[task] or known[task][k] != v}
            for own, task in zip(flat, tasks, strict=True)
        ]
    # If some run lacks a section, the section's non-empty settings are one value, a mapping.
    for key in {key for own in flat for key in own}:
        for own in flat:
            if parts := [name for name in own if name.startswith(f"{key}.")]:
                given = {name.removeprefix(f"{key}."): own.pop(name) for name in parts}
                own[key] = {name: value for name, value in given.items() if value not in _EMPTY}
    keys = dict.fromkeys(key for own in flat for key in own)
    found = {key: [own.get(key) for own in flat] for key in keys}
    return {key: values for key, values in found.items() if any(v != values[0] for v in values)}


def _defaults(task: str) -> dict[str, Any]:
    """Return the default values of a task's options by dotted key ({} if unknown)."""
    with contextlib.suppress(HarnessError):
        options = kind("tasks").options(plugin_of(task), {}).model_dump(mode="json")
        return flatten({"task": options})
    return {}


def _setting(key: str) -> str:
    return _NAMES.get(key, key.replace(".", " ").replace("_", " "))


def prompts(runs: Sequence[ReportedRun]) -> list[str]:
    """Describe, for each run, the settings that differ between runs, except the model's."""
    own = {k: v for k, v in _differing(runs).items() if not k.startswith("model.")}
    return [
        ", ".join(f"{_setting(key)} {in_words(values[at])}" for key, values in own.items())
        for at in range(len(runs))
    ]


def _nested(key: str, value: Any) -> Any:
    """Return a section's settings without the prefix ``key.``, or any other value unchanged."""
    if not isinstance(value, dict):
        return value
    return {name.removeprefix(f"{key}."): each for name, each in value.items()}


def extraction_of(run: ReportedRun) -> str:
    """Return in words how the answer is found in a reply, or "" if that is not set."""
    found = [run.settings.get(key) for key in ("task.extract", "task.extraction")]
    own = next((value for value in found if value), "")
    return in_words(_nested("task.extract", own)) if own else ""


def in_words(value: Any) -> str:
    """Return a setting's value in words.

    None becomes "default", and an empty list or mapping becomes "none".

    >>> in_words({"n": 2, "fields": ["a", "b"], "strict": True})
    'n: 2; fields: a, b; strict: yes'
    """
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {in_words(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "default" if value is None else str(value)


def settings(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of all non-empty settings of each run."""
    return by_key("Settings of each run", "setting", runs, [run.settings for run in runs])


def origins(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of each run's times, data and environment."""
    told = [
        {
            key: _time(value) if key in _TIMES else value
            for key, value in flatten(dict(run.manifest)).items()
            if not any(key == other or key.startswith(f"{other}.") for other in _ELSEWHERE)
        }
        for run in runs
    ]
    return by_key("How the runs were made", "", runs, told)


def packages(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of each run's package versions."""
    told = [run.manifest.get("packages", {}) for run in runs]
    return by_key("Versions of packages", "package", runs, told)


def by_key(
    title: str, heading: str, runs: Sequence[ReportedRun], told: Sequence[Mapping[str, Any]]
) -> Table:
    """Build a table of mappings, with a column per run and a row per key."""
    keys = dict.fromkeys(key for one in told for key in one)
    rows = [[key, *(_value_text(one.get(key)) for one in told)] for key in keys]
    shown = [row for row in rows if any(row[1:])]
    return table([heading, *(run.name for run in runs)], shown, title=title, names=1 + len(runs))


def _value_text(value: Any) -> str:
    if value in (None, "", [], {}, ()):
        return ""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _time(value: Any) -> Any:
    try:
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (TypeError, ValueError, OverflowError, OSError):
        return value
