"""A run's identity: which keys of its run file may change when it is resumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.config.judges import JudgeSection
from harness.config.run_file import MAY_CHANGE, RunFile, flatten
from harness.errors import ConfigError
from harness.plugins import kind
from harness.ports import Resumable

GROWING = ("samples", "rounds.max", "limit")
"""Keys that a resumed run may raise, never lower."""

NAMED = ("judges", "panels")
"""Lists whose elements are identified by name."""

MAY_CHANGE_OF_JUDGE = ("model.path", "model.api_key_env", "model.price", "model.limits")
"""Keys of a judge's section that may change."""


def conflicts(before: RunFile, now: RunFile) -> list[str]:
    """Return the dotted keys that changed although they may not.

    A section that one of the run files lacks, or has as a number, is named once. Judges and panels
    are identified by their names.

    Args:
        before: The run file that the run was started with.
        now: The run file to resume it with.
    """
    trees = [by_name(run) for run in (before, now)]
    old, new = map(flatten, trees)
    names = [
        {one.as_ for one in run.judges} | {one.as_ for one in run.panels} for run in (before, now)
    ]
    differing = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) == new.get(key) or any(may_change(key, tree) for tree in trees):
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
    """Return the dotted keys of a judge's section that changed although they may not."""
    tree = now.model_dump(mode="json")
    old, new = flatten(before.model_dump(mode="json")), flatten(tree)
    return [
        key
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
        and not _below(key, MAY_CHANGE_OF_JUDGE)
        and not _is_free_option(key, tree)
    ]


def may_change(key: str, tree: Mapping[str, Any]) -> bool:
    """Return whether a key may change when a run is resumed.

    Args:
        key: A dotted key of `by_name`.
        tree: The run file, as `by_name` has it.
    """
    if _is_free_option(key, tree):
        return True
    if key.startswith("judges."):
        return _below(key.split(".", 2)[-1], MAY_CHANGE_OF_JUDGE)
    return _below(key, MAY_CHANGE)


def _is_free_option(key: str, tree: Mapping[str, Any]) -> bool:
    """Return whether a key is a backend's option that the backend allows to change."""
    section: Any = tree
    parts = key.split(".")
    for number, part in enumerate(parts):
        section = section.get(part) if isinstance(section, Mapping) else None
        if part in ("model", "polish") and isinstance(section, Mapping):
            option = parts[number + 1 : number + 2]
            return bool(option) and option[0] in _free_options(str(section.get("backend")))
    return False


def _free_options(backend: str) -> frozenset[str]:
    try:
        plugin = kind("backends").load(backend)
    except ConfigError:  # A run can be read even if its backend is not installed.
        return frozenset()
    return plugin.may_change if isinstance(plugin, Resumable) else frozenset()


def _below(key: str, sections: Iterable[str]) -> bool:
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def by_name(run: RunFile) -> dict[str, Any]:
    """Return the run file as mappings only, with judges and panels by name."""
    tree = run.model_dump(mode="json")
    return {**tree, **{section: {one["as"]: one for one in tree[section]} for section in NAMED}}


def value(run: RunFile, key: str) -> Any:
    """Return the value of a dotted key, or None if the run file has no such key."""
    tree = by_name(run)
    flat = flatten(tree)
    if key in flat:
        return flat[key]
    found: Any = tree
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _grew(old: int | None, new: int | None) -> bool:
    return new is None or (old is not None and new >= old)  # null is no limit
