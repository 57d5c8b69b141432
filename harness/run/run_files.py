"""Reads the run files that users name, by path or by the name of a shipped one, or as a mapping."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.config import shipped
from harness.config.loading import expand, read
from harness.config.run_file import RunFile
from harness.datasets.folder import DataFolder
from harness.errors import ConfigError
from harness.plugins import FILE, kind
from harness.run import models
from harness.store.run_folder import in_run_name


def read_runs(
    file: str | Path | Mapping[str, Any],
    *,
    model: str = "",
    overrides: Sequence[str] = (),
    further: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> tuple[str, dict[str, RunFile]]:
    """Read a run file, and return a base name for its runs and the runs by variant.

    Args:
        file: A run file's path, the name of a shipped run file, or a run file's content.
        model: Replaces the file's model (see `harness.run.models.named_model`) and is added to
            the base name.
        overrides: ``KEY=VALUE`` overrides.
        further: More overrides: values by dotted key.
        limit: Overrides the file's limit.

    Raises:
        ConfigError: If there is no such file, or it is invalid.
    """
    changes = [f"model={json.dumps(models.named_model(model))}"] if model else []
    further = {**(further or {}), **({} if limit is None else {"limit": limit})}
    if isinstance(file, Mapping):
        base, where, tree = "run", "the run file", dict(file)
    else:
        path = _found(str(file))
        base, where, tree = path.stem, str(path), read(path)
        if path == Path(file):  # a shipped file has no files next to it
            tree = _located(tree, path.parent.absolute())
    suffix = f".{in_run_name(model)}" if model else ""
    if model:
        models.refuse_other_address(
            tree, where, model, [*overrides, *(f"{key}=" for key in further)]
        )
    return base + suffix, expand(tree, where, [*changes, *overrides], further)


def _found(file: str) -> Path:
    try:
        return shipped.find(file, "configs")
    except ConfigError as error:
        if file not in kind("tasks").names():
            raise
        remedy = f"It is a task: harness eval {file} --model MODEL, or task: {{name: {file}}}."
        raise ConfigError(error.message, remedy) from None


def _located(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add the run file's folder, and find the Python files of plug-ins that are in it."""
    own, judges = DataFolder(folder, folder).own, tree.get("judges")
    for section in (tree.get("task"), *(judges if isinstance(judges, list) else ())):
        name = section.get("name") if isinstance(section, dict) else None
        if isinstance(name, str) and name.endswith(FILE):
            section["name"] = own(name)
    return {"folder": str(folder), **tree}
