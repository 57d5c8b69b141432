"""A run's identity: which keys of its run file may change when the run is resumed."""

import contextlib
from collections.abc import Mapping
from typing import Any

from harness.config.run_file import RunFile, flatten, is_below
from harness.config.sections import JudgeSection
from harness.errors import ConfigError
from harness.execution import executing
from harness.plugin_loader import kind
from harness.ports import Backend, class_of

GROWING = ("samples", "rounds.max", "limit")  # keys that a resumed run may raise, but not lower

NAMED = ("judges", "panels")  # sections that are lists, with elements identified by name

MAY_CHANGE = (
    *("folder", "limits", "budget", "measure", "check", "variants", "matrix"),
    *("task.path", "task.as"),
)
"""Keys that may change when a run is resumed. The keys below them may change too."""

ON_ERROR = "model.on_error"
"""A key that may change to ``fail`` only: crashes that count already would still count. If it is
unset, a run continues as it began."""

MAY_CHANGE_OF_MODEL = ("path", "api_key_env", "price", "limits", "placement", "headers")
"""Keys that may change in each model's section when a run is resumed.

A backend may allow more keys (`Backend.may_change`). The ``path`` of ``polish`` is an exception: it
must not change, because no fingerprint shows whether the weights are the same.
"""


def conflicts(before: RunFile, now: RunFile) -> list[str]:
    """Return the dotted keys that must not change but have.

    An added or removed judge or panel counts as one key.
    """
    trees = [by_name(run) for run in (before, now)]
    old, new = map(flatten, trees)
    with executing("refused"):  # only the new run file's code may be executed
        free = free_keys(trees[0])
    free += free_keys(trees[1])
    names = [{*tree["judges"], *tree["panels"]} for tree in trees]
    differing: dict[str, None] = {}
    for key in sorted(old.keys() | new.keys()):
        was = old.get(key)
        is_now = new.get(key)
        # null means no limit
        grew = key in GROWING and (is_now is None or (was is not None and is_now >= was))
        counts_now = key == ON_ERROR and (was != "fail" or is_now is None)
        if was == is_now or grew or counts_now or is_below(key, free):
            continue
        parts = key.split(".")
        renamed = parts[0] in NAMED and parts[1:2] and parts[1] in names[0] ^ names[1]
        differing[".".join(parts[:2]) if renamed else key] = None
    return [key for key in differing if not is_below(key, differing.keys() - {key})]


def judge_conflicts(before: JudgeSection, now: JudgeSection) -> list[str]:
    """Return the dotted keys of a judge's section that must not change but have."""
    old, new = (flatten(section.model_dump(mode="json")) for section in (before, now))
    free = _free_of_model("model", now.model.model_dump())
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [key for key in changed if not is_below(key, free)]


def free_keys(tree: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of a run file (`by_name`) that may change freely in a resumed run."""
    models = {"model": tree.get("model"), "polish": tree.get("polish")}
    models["user.model"] = (tree.get("user") or {}).get("model")
    models |= {
        f"judges.{name}.model": judge["model"] for name, judge in tree.get("judges", {}).items()
    }
    free = list(MAY_CHANGE)
    for place, model in models.items():
        if model:
            free += _free_of_model(place, model)
    return free


def _free_of_model(place: str, model: Mapping[str, Any]) -> list[str]:
    keys = [key for key in MAY_CHANGE_OF_MODEL if (place, key) != ("polish", "path")]
    with contextlib.suppress(ConfigError):  # a run can be read even if its backend is missing
        backend = kind("backends").load(str(model.get("backend")))
        keys += class_of(backend, Backend).may_change  # type: ignore[type-abstract]
    return [f"{place}.{key}" for key in keys]


def by_name(run: RunFile) -> dict[str, Any]:
    """Return a run file as nested mappings, with judges and panels by name."""
    tree = run.model_dump(mode="json")
    return tree | {
        section: {element["as"]: element for element in tree[section]} for section in NAMED
    }


def value(run: RunFile, key: str) -> Any:
    """Return the value of a dotted key in a run file, or None if there is no such key."""
    node: Any = by_name(run)
    for part in key.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node
