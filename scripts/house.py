"""Figures of the package's size and structure, and whether they are within bounds.

    python scripts/house.py           prints the figures
    python scripts/house.py --check   exits with 1 if a figure exceeds its bound in house.toml

The core is the package without harness/plugins. Size is counted in nodes of the syntax tree, not
in lines, of which there may be as many as reading needs. A bound is raised only by a commit that
says why, and lowered when the figure falls.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = "harness.plugins."
UNCOUNTED = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
SIMPLE = (
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return),
    *(ast.Expr, ast.Raise, ast.Assert, ast.Delete),
)
VAGUE = frozenset(
    {
        "found",
        "one",
        "said",
        "own",
        "asked",
        "told",
        "given",
        "got",
        "kept",
        "known",
        "wanted",
        "named",
        "begun",
        "owed",
        "taken",
        "held",
        "made",
        "gone",
        "whole",
        "shown",
        "alike",
        "further",
        "beside",
        "again",
        "whose",
        "tell",
        "say",
        "twice",
        "each",
        "other",
        "of",
        "at",
        "most",
        "least",
    }
)
"""Names of local variables that do not say what they hold."""


@dataclass
class Module:
    """A module, and what is counted in it."""

    name: str
    nodes: int = 0
    imports: set[str] = field(default_factory=set)  # modules of the package, lazily or not
    lazy_imports: int = 0  # imports of the package inside functions
    statements: list[int] = field(default_factory=list)  # nodes of each simple statement
    functions: int = 0
    vague_functions: int = 0  # functions with a vague local name

    @property
    def is_core(self) -> bool:
        """Whether the module is not part of a plug-in."""
        return not self.name.startswith(PLUGINS)


def is_docstring(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def imported(node: ast.AST, known: set[str]) -> Iterator[str]:
    """Yield the modules of the package that an import statement names."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            names.append(submodule if submodule in known else node.module)
    yield from (name for name in names if name in known and name != "harness")


def local_names(function: ast.AST) -> set[str]:
    """Return the names that a function assigns, and those of its parameters."""
    nodes = list(ast.walk(function))
    assigned = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return assigned | {node.arg for node in nodes if isinstance(node, ast.arg)}


def read(name: str, path: Path, known: set[str]) -> Module:
    """Count what is in a module."""
    module = Module(name)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        module.nodes += not isinstance(node, UNCOUNTED)
        if is_docstring(node):
            module.nodes -= 2
        elif isinstance(node, SIMPLE):
            module.statements.append(sum(1 for _ in ast.walk(node)))
        module.imports |= set(imported(node, known)) - {name}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            module.functions += 1
            module.vague_functions += bool(local_names(node) & VAGUE)
    lazy = {
        (inner.lineno, inner.col_offset)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
        if list(imported(inner, known))
    }
    module.lazy_imports = len(lazy)
    return module


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in graph[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            place = stack.index(name)
            group, stack[place:] = stack[place:], []
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return groups


def figures(modules: Iterable[Module]) -> dict[str, float]:
    """Return the figures, by name."""
    modules = list(modules)
    core = [module for module in modules if module.is_core]
    statements = [size for module in modules for size in module.statements]
    functions = sum(module.functions for module in modules)
    vague = sum(module.vague_functions for module in modules)
    crossing = [name for module in core for name in module.imports if name.startswith(PLUGINS)]
    return {
        "nodes": sum(module.nodes for module in modules),
        "core_nodes": sum(module.nodes for module in core),
        "files": len(modules),
        "core_files": len(core),
        "largest_file_nodes": max(module.nodes for module in modules),
        "circles": len(circles({module.name: module.imports for module in modules})),
        "core_to_plugin_imports": len(crossing),
        "imports_inside_functions": sum(module.lazy_imports for module in modules),
        "nodes_per_statement": round(sum(statements) / len(statements), 1),
        "vague_functions_percent": round(100 * vague / functions, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the bounds")
    arguments = parser.parse_args()
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / "harness").rglob("*.py"))
    }
    known = set(paths)
    measured = figures(read(name, path, known) for name, path in paths.items())
    bounds = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    exceeded = [name for name, value in measured.items() if value > bounds[name]]
    for name, value in measured.items():
        mark = "  exceeds the bound" if name in exceeded else ""
        print(f"{value:>11,}  (at most {bounds[name]:,})  {name}{mark}")
    if arguments.check and exceeded:
        print(f"scripts/house.toml has the bounds; say in the commit why one must rise: {exceeded}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
