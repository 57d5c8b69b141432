"""A run's identity: which keys of its run file may change when the run is resumed."""

import contextlib
from collections.abc import Mapping
from typing import Any

from harness.config.run_file import RunFile, flatten, is_below
from harness.config.sections import JudgeSection
from harness.errors import ConfigError
from harness.execution import set_code_permission
from harness.plugin_loader import kind
from harness.ports import Backend, plugin_class

GROWING_KEYS = (
    "samples",
    "rounds.max",
    "limit",
)  # keys that a resumed run may raise, but not lower

NAMED_LISTS = ("judges", "panels")  # sections that are lists, with elements identified by name

CHANGEABLE_KEYS = (
    *("folder", "limits", "budget", "measure", "check", "variants", "matrix"),
    *("task.path", "task.as"),
)
"""Keys that may change when a run is resumed. The keys below them may change too."""

ON_ERROR_KEY = "model.on_error"
"""A key that may change to ``fail`` only: crashes that count already would still count. If it is
unset, a run continues as it began."""

CHANGEABLE_MODEL_KEYS = ("path", "api_key_env", "price", "limits", "placement", "headers")
"""Keys that may change in each model's section when a run is resumed.

A backend may allow more keys (`Backend.may_change`). The ``path`` of ``polish`` is an exception: it
must not change, because no fingerprint shows whether the weights are the same.
"""


def conflicting_keys(before: RunFile, now: RunFile) -> list[str]:
    """Return the dotted keys that must not change but have.

    An added or removed judge or panel counts as one key.
    """
    old_tree = tree_by_name(before)
    new_tree = tree_by_name(now)
    with set_code_permission("refused"):  # only the new run file's code may be executed
        changeable = changeable_keys(old_tree)
    changeable += changeable_keys(new_tree)
    added_or_removed = _judge_and_panel_names(old_tree) ^ _judge_and_panel_names(new_tree)
    old = flatten(old_tree)
    new = flatten(new_tree)
    differing: dict[str, None] = {}
    for key in sorted(old.keys() | new.keys()):
        if is_below(key, changeable) or _may_become(key, old.get(key), new.get(key)):
            continue
        section, *path = key.split(".")
        if section in NAMED_LISTS and path and path[0] in added_or_removed:
            key = f"{section}.{path[0]}"
        differing[key] = None
    return [key for key in differing if not is_below(key, differing.keys() - {key})]


def _judge_and_panel_names(tree: Mapping[str, Any]) -> set[str]:
    return {*tree["judges"], *tree["panels"]}


def _may_become(key: str, old: Any, new: Any) -> bool:
    """Return whether a key may have a new value when a run is resumed."""
    if key in GROWING_KEYS and (
        new is None or (old is not None and new >= old)
    ):  # null means no limit
        return True
    if key == ON_ERROR_KEY and (old != "fail" or new is None):
        return True
    return bool(old == new)


def conflicting_judge_keys(before: JudgeSection, now: JudgeSection) -> list[str]:
    """Return the dotted keys of a judge's section that must not change but have."""
    old = flatten(before.model_dump(mode="json"))
    new = flatten(now.model_dump(mode="json"))
    changeable = _changeable_model_keys("model", now.model.model_dump())
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [key for key in changed if not is_below(key, changeable)]


def changeable_keys(tree: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of a run file (`tree_by_name`) that may change in a resumed run."""
    models = {"model": tree.get("model"), "polish": tree.get("polish")}
    models["user.model"] = (tree.get("user") or {}).get("model")
    for name, judge in tree.get("judges", {}).items():
        models[f"judges.{name}.model"] = judge["model"]
    changeable = list(CHANGEABLE_KEYS)
    for section, model in models.items():
        if model:
            changeable += _changeable_model_keys(section, model)
    return changeable


def _changeable_model_keys(section: str, model: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys that may change in a model's section (``section`` is its key)."""
    keys = [key for key in CHANGEABLE_MODEL_KEYS if (section, key) != ("polish", "path")]
    with contextlib.suppress(ConfigError):  # a run can be read even if its backend is missing
        backend = kind("backends").load(str(model.get("backend")))
        keys += plugin_class(backend, Backend).may_change  # type: ignore[type-abstract]
    return [f"{section}.{key}" for key in keys]


def tree_by_name(run: RunFile) -> dict[str, Any]:
    """Return a run file as nested mappings, with judges and panels by name."""
    tree = run.model_dump(mode="json")
    for section in NAMED_LISTS:
        tree[section] = {element["as"]: element for element in tree[section]}
    return tree


def key_value(run: RunFile, key: str) -> Any:
    """Return the value of a dotted key in a run file, or None if there is no such key."""
    node: Any = tree_by_name(run)
    for part in key.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node
