"""The requirements for pip say what the lock file says, and the lock file what pyproject asks."""

import ast
import functools
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@functools.cache
def lock() -> Any:
    return tomllib.loads((ROOT / "uv.lock").read_text())


Pins = dict[tuple[str, str], set[str]]
"""Name and version to the hashes of their files."""


def packages() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for package in lock()["package"]:
        found[package["name"]].append(package)
    return found


def needed(extras: Iterable[str] = (), groups: Iterable[str] = ()) -> Pins:
    """What the lock file says that the harness needs, with some extras and groups."""
    by_name = packages()
    [own] = by_name["harness-instruct"]
    todo = [*own["dependencies"]]
    for extra in extras:
        todo += own["optional-dependencies"][extra]
    for group in groups:
        todo += own["dev-dependencies"][group]
    pins: Pins = {}
    added: set[tuple[str, str]] = set()  # extras by package
    while todo:
        wanted = todo.pop()
        for package in by_name[wanted["name"]]:
            key = (package["name"], package["version"])
            if wanted.get("version", package["version"]) != package["version"]:
                continue
            for extra in wanted.get("extra", []):
                if (package["name"], extra) not in added:
                    added.add((package["name"], extra))
                    todo += package["optional-dependencies"][extra]
            if key not in pins:
                files = [package["sdist"]] if "sdist" in package else []
                pins[key] = {file["hash"] for file in files + package.get("wheels", [])}
                todo += package.get("dependencies", [])
    return pins


def required(path: Path) -> Pins:
    """What a requirements file says."""
    pins: Pins = {}
    for line in path.read_text().splitlines():
        if pin := re.match(r"([a-z0-9-]+)==(\S+)", line):
            hashes = pins[pin[1], pin[2]] = set()
        elif found := re.match(r"    --hash=(sha256:[0-9a-f]{64})( \\)?$", line):
            hashes.add(found[1])
        else:
            assert re.match(r"    #|$", line), line
    return pins


@pytest.mark.parametrize(
    ("file", "extras", "groups"),
    [
        ("run.txt", ["report"], ["build"]),
        ("ray.txt", ["ray"], []),
        (
            "test.txt",
            [
                "report",
                "build",
                "excel",
                "icu",
                "jsonschemabench",
                "google",
                "aws",
                "azure",
                "team",
            ],
            ["build", "dev"],
        ),
    ],
)
def test_the_requirements_pin_exactly_what_the_lock_file_says(
    file: str, extras: list[str], groups: list[str]
) -> None:
    assert required(ROOT / "requirements" / file) == needed(extras, groups), (
        "out of step: export them again, as requirements/README.md says"
    )


def asked(requirements: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for line in requirements:
        if isinstance(line, str):
            name, specifier = re.match(
                r"([A-Za-z0-9_.-]+)(?:\[[\w,-]+\])?\s*([^;\s]*)", line
            ).groups()  # type: ignore[union-attr]
            yield name.lower(), specifier


def locked(requirements: Iterable[dict[str, str]]) -> Iterator[tuple[str, str]]:
    for line in requirements:
        yield line["name"], line.get("specifier", "")


def test_the_lock_file_was_made_from_this_pyproject() -> None:
    [own] = packages()["harness-instruct"]
    assert own["version"] == PROJECT["project"]["version"]
    assert lock()["requires-python"] == PROJECT["project"]["requires-python"]
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *chain.from_iterable(extras.values())]
    assert set(locked(own["metadata"]["requires-dist"])) == set(asked(lines))
    groups = PROJECT["dependency-groups"]
    in_lock = own["metadata"]["requires-dev"]
    assert set(locked(in_lock["build"])) == set(asked(groups["build"]))
    assert set(locked(in_lock["dev"])) == set(asked(groups["build"])) | set(asked(groups["dev"]))


GUARDED = {"bert_score", "bleurt", "detoxify", "pandas", "polars", "pytest", "vllm"}
"""Imported only if installed; their absence has a message of its own."""


def distributions(module: str) -> set[str]:
    """The packages that a module belongs to, with their names as in the lock file."""
    top = module.partition(".")[0]
    return {re.sub("[-_.]+", "-", one).lower() for one in installed().get(top, [top])}


@functools.cache
def installed() -> Any:
    return packages_distributions()


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Modules that code imports, each with the extra that it is imported from, or no extra."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.expr_context() | ast.Constant():
                continue
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, ""
            case ast.ImportFrom(module=str(module)):
                yield module, ""
            case ast.Call(
                func=ast.Name(id="import_extra"),
                args=[ast.Constant(value=str(module)), ast.Constant(value=str(extra))],
            ):
                yield module, extra
        nodes.extend(ast.iter_child_nodes(node))


def test_a_package_of_an_extra_is_imported_as_such() -> None:
    wanted = {
        pair
        for path in (ROOT / "harness").rglob("*.py")
        for pair in imported(ast.parse(path.read_text()))
    }
    assert {"excel", "icu", "parquet"} <= {extra for _, extra in wanted}
    for module, extra in wanted:
        if module.partition(".")[0] in {"harness", *sys.stdlib_module_names, *GUARDED}:
            continue
        names = {f"{name}-" for name, _ in needed([extra] if extra else [])}
        found = tuple(f"{one}-" for one in distributions(module))  # mlflow is in mlflow-skinny
        belongs = any(name.startswith(found) for name in names)
        assert belongs, f"{module} is not in the extra {extra or 'none'}"
