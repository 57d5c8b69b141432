"""Rules of the package's structure that are not import-linter's (pyproject.toml has those)."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from harness.declarations import DISTRIBUTION as OWN
from harness.declarations import declarations

ROOT = Path(__file__).parents[1] / "harness"
FILES = sorted(ROOT.rglob("*.py"))


class Module(NamedTuple):
    """The absolute names that a module imports, lazily or not, and its public classes."""

    imports: list[str]
    classes: list[str]


@cache
def modules() -> dict[Path, Module]:
    """All modules, by their paths in the package.

    Their syntax trees are not kept: tracking so many objects would take seconds.
    """
    return {path.relative_to(ROOT): read(path) for path in FILES}


def read(path: Path) -> Module:
    tree = ast.parse(path.read_text())
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    public = [name for name in classes if not name.startswith("_")]
    return Module([*imports(ast.walk(tree))], public)


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_plug_ins_import_each_other_only_as_they_declare() -> None:
    declared = {one.home: one.plugin.requires for one in declarations() if one.package == OWN}
    faults = []
    for path, module in modules().items():
        name = ".".join(["harness", *path.with_suffix("").parts])
        home = next((home for home in declared if f"{name}.".startswith(f"{home}.")), "")
        others = {other for other in declared if other != home} if home else set()
        for imported in module.imports:
            used = [other for other in others if f"{imported}.".startswith(f"{other}.")]
            names = [other.rpartition(".")[2] for other in used]
            if not set(names) <= set(declared[home] if home else ()):
                faults.append(f"{name} imports {imported}")
    assert declared
    assert not faults


def test_environment_is_read_in_one_module() -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in FILES
        if any(name in path.read_text() for name in ("os.environ", "os.getenv", "environ["))
    }
    assert readers <= {"config/settings.py"}


def test_no_two_public_classes_share_a_name() -> None:
    found: dict[str, list[str]] = {}
    for path, module in modules().items():
        for name in module.classes:
            found.setdefault(name, []).append(str(path))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}
