"""A run's identity: in what a continued run may differ from what it was begun with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.config.judges import JudgeSection
from harness.config.run_file import MAY_CHANGE, RunFile, flatten

GROWING = ("samples", "rounds.max", "limit")
"""Keys that a continued run may raise, never lower."""

NAMED = ("judges", "panels")
"""Sections whose elements have names in the run."""

MAY_CHANGE_OF_JUDGE = (
    *("model.path", "model.api_key_env", "model.price", "model.limits"),
    *("model.replicas", "model.gpus", "model.replicas_at", "model.start_s", "model.restarts"),
    "model.engine",
)
"""The same of a judge's section."""


def conflicts(before: RunFile, now: RunFile) -> list[str]:
    """The dotted keys in which a run may not differ from what it was begun with.

    A section that one of them lacks, or has as a number, is named once; judges
    and panels are told apart by their names in the run.
    """
    old, new = (flatten(by_name(run)) for run in (before, now))
    names = [
        {one.as_ for one in run.judges} | {one.as_ for one in run.panels} for run in (before, now)
    ]
    differing = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) == new.get(key) or may_change(key):
            continue
        if key in GROWING and _grew(old.get(key), new.get(key)):
            continue
        section, _, below = key.partition(".")
        name = below.partition(".")[0] if section in NAMED else ""
        if name in names[0] ^ names[1]:
            key = f"{section}.{name}"
        if key not in differing:
            differing.append(key)
    return [key for key in differing if not any(key.startswith(f"{one}.") for one in differing)]


def judge_conflicts(before: JudgeSection, now: JudgeSection) -> list[str]:
    """The dotted keys in which a judge may not differ from what it was begun with."""
    old, new = (flatten(judge.model_dump(mode="json")) for judge in (before, now))
    return [
        key
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not _below(key, MAY_CHANGE_OF_JUDGE)
    ]


def may_change(key: str) -> bool:
    """Whether a continued run may differ in a dotted key of `by_name`, or in any below it."""
    if key.startswith("judges."):
        return _below(key.split(".", 2)[-1], MAY_CHANGE_OF_JUDGE)
    return _below(key, MAY_CHANGE)


def _below(key: str, sections: Iterable[str]) -> bool:
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def by_name(run: RunFile) -> dict[str, Any]:
    """The run file as mappings alone: its judges and panels by their names in the run."""
    tree = run.model_dump(mode="json")
    return {**tree, **{section: {one["as"]: one for one in tree[section]} for section in NAMED}}


def value(run: RunFile, key: str) -> Any:
    """The value of a dotted key, None where the run file has no such key."""
    tree = by_name(run)
    flat = flatten(tree)
    if key in flat:
        return flat[key]
    found: Any = tree
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _grew(old: int | None, new: int | None) -> bool:
    return new is None or (old is not None and new >= old)  # null: without limit
