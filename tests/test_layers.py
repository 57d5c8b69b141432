"""Imports go one way, and siblings do not import each other."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "harness"

# Top to bottom; the parts of one layer are siblings.
LAYERS = [
    {"__main__", "pytest_plugin"},
    {"api"},
    {"results", "api_options"},
    {"cli", "testing"},
    {"run", "view"},
    {"report", "builders", "exchange"},
    {"analysis"},
    {"tasks"},
    {"calls", "scoring", "backends", "store", "datasets", "observers"},
    {"prompts"},
    {"config"},
    {"plugins"},
    {"plugin_interface"},
    {"user_code", "extras", "workers"},
    {"ports"},
    {"records"},
    {"errors"},
]
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}

VENDORS = {"openai", "anthropic", "vllm"}


def imports(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, lazily or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in imports(path):
        top = name.split(".")[0]
        if top in VENDORS:
            assert own == "backends", f"vendor import {name} outside backends"
        if top != "harness" or part(name) in (own, ""):
            continue
        if own == "mock":
            pytest.fail(f"mock stands alone but imports {name}")
        if part(name) == "mock":
            assert own == "cli", f"only cli may import mock, not {own}"
            continue
        assert DEPTH[part(name)] > DEPTH[own], f"{own} may not import {name}"


def test_every_part_has_a_layer() -> None:
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert parts - {"__init__", "mock"} <= DEPTH.keys()


def test_environment_is_read_in_one_module() -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in MODULES
        if any(name in path.read_text() for name in ("os.environ", "os.getenv", "environ["))
    }
    assert readers <= {"config/settings.py"}


def test_no_module_is_longer_than_450_lines() -> None:
    long = [path.name for path in MODULES if len(path.read_text().splitlines()) > 450]
    assert not long


def test_no_two_public_classes_share_a_name() -> None:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}
