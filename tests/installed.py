"""Packages of others, as pip would have installed them."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from harness.cli.verbs import all_verbs
from harness.plugin_loader import Kind, kind


def install_plugin(
    site: Path,
    code: str,
    members: Mapping[str, Mapping[str, str]],
    package: str = "third",
    fields: str = "",
) -> None:
    """Write a package of one module of this code, and the declaration of its plug-in.

    What this process imported from an earlier package of this name is forgotten.

    Args:
        site: A folder in which Python finds packages.
        code: The module's code.
        members: For each kind of plug-in, the names in the module by the names in run files.
        package: The name of the package and of its module.
        fields: Further fields of the declaration, as Python arguments.
    """
    for module in (package, f"{package}_declaration"):
        sys.modules.pop(module, None)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    declared = {
        kind: {name: f"{package}:{attribute}" for name, attribute in own.items()}
        for kind, own in members.items()
    }
    declaration = (
        "from harness.plugin import Plugin, Verb\n"
        f"plugin = Plugin(summary='For a test.', **{declared!r}, {fields})\n"
    )
    (site / f"{package}.py").write_text(textwrap.dedent(code))
    (site / f"{package}_declaration.py").write_text(declaration)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    points = f"[harness]\n{package} = {package}_declaration\n"
    (info / "entry_points.txt").write_text(points)


def third_party(site: Path, code: str, group: str, name: str, package: str = "third") -> None:
    """An installed package that adds a plug-in, seen by processes with this PYTHONPATH."""
    install_plugin(site, code, {group: {name: "plugin"}}, package)


def has_verb(verb: str) -> bool:
    """Whether the package of a verb is installed."""
    return verb in all_verbs()


def has_run_step(name: str) -> bool:
    """Whether the package of a step of ``harness run`` is installed."""
    return name in Kind("run_steps").names()


def has_backend(model: str) -> bool:
    """Whether the backend of a model, written as in a run file, is installed."""
    match = re.search(r"backend: (\w+)", model)
    return match is not None and match[1] in kind("backends").names()
