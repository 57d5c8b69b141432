"""Every example in a docstring gives what it says."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from harness.declarations import declarations

ROOT = Path(__file__).parents[1]
NEEDED = {"harness.api": {"collie"}, "harness.results": {"collie", "gate"}}
"""The plug-ins that examples need: that of the task of the shipped ``quickstart``, and others."""
INSTALLED = {declaration.name for declaration in declarations()}
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "harness").rglob("*.py"))
    if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", [name for name in MODULES if NEEDED.get(name, set()) <= INSTALLED])
def test_the_examples_hold(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path))
    found = doctest.testmod(import_module(name))
    assert found.attempted
    assert not found.failed
