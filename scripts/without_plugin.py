"""Remove plug-ins in turn, and run the tests of what is left.

    python scripts/without_plugin.py NAME ... [-- PYTEST ARGUMENTS]
    python scripts/without_plugin.py --all [-- PYTEST ARGUMENTS]

For each plug-in, the files that git tracks are copied to a temporary folder. From the copy, the
script removes the folders, tests and entry points of the plug-in and of those that require it,
and the run files in `configs/` that use them. Then it runs the tests that are left, except those of
the documentation, which describes the whole distribution. Mock and testing stay, since tests
need them. With ``core``, all other plug-ins are removed. The plug-in for pytest, whose entry point
is pytest's own, is removed with the gate, which it requires.
"""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from harness.declarations import DISTRIBUTION, Declaration, declarations

ROOT = Path(__file__).parents[1]
NEEDED_BY_TESTS = {"mock", "testing"}
ALL_BUT_NEEDED = "core"
GATE = "gate"
PYTEST_PLUGIN = "harness.plugins.pytest"
"""Of the entry points of pytest, and not of `shipped`; it requires the gate."""

SKIPPED = ["--ignore=tests/test_docs.py", "--ignore=tests/test_plugins_page.py"]
SKIPPED += ["--ignore=tests/plugins/vllm/real"]
SKIPPED += ["--ignore=tests/backends/servers"]
MARKS = "not timed and not exhaustive"


def shipped() -> dict[str, Declaration]:
    """The plug-ins of this distribution, by the names of their entry points."""
    return {plugin.name: plugin for plugin in declarations() if plugin.package == DISTRIBUTION}


def with_dependents(names: Iterable[str]) -> set[str]:
    """The names of plug-ins, and of all that require one of them."""
    removed = set(names)
    while True:
        dependents = {
            name
            for name, declaration in shipped().items()
            if removed & set(declaration.plugin.requires)
        }
        if dependents <= removed:
            return removed
        removed |= dependents


def members(declaration: Declaration) -> set[str]:
    """The names that run files use for what a plug-in brings."""
    plugin = declaration.plugin
    kinds = (plugin.tasks, plugin.backends, plugin.checkers, plugin.judges, plugin.metrics)
    names = {name.removesuffix(":*") for kind in kinds for name in kind}
    keys = {*plugin.sections, *plugin.section_builders}
    return names | keys | {key.rpartition(".")[2] for key in keys}


def strings(value: Any) -> set[str]:
    """All keys and texts of a YAML document; of ``FAMILY:ENTRY`` the family, too."""
    if isinstance(value, dict):
        return strings(list(value)) | strings(list(value.values()))
    if isinstance(value, list):
        return set().union(*map(strings, value))
    if not isinstance(value, str):
        return set()
    return {value, value.partition(":")[0]}


def homes(names: set[str]) -> set[str]:
    """The packages of plug-ins that are removed."""
    found = {shipped()[name].home for name in names}
    return found | {PYTEST_PLUGIN} if GATE in names else found


def copy_without(names: set[str], copy: Path) -> None:
    """Copy the tracked files to ``copy``, without some plug-ins."""
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, tracked.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, copy / name)
    removed_members = set[str]()
    for name in names:
        removed_members |= members(shipped()[name])
    for home in homes(names):
        folder = Path(*home.split("."))
        shutil.rmtree(copy / folder)
        shutil.rmtree(copy / "tests" / folder.relative_to("harness"), ignore_errors=True)
    for run_file in (copy / "configs").glob("*.yaml"):
        if removed_members & strings(yaml.safe_load(run_file.read_text())):
            run_file.unlink()
    if (ROOT.parent / "shared").is_dir():  # recorded data of others
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
    write_entry_points(names, copy)


def write_entry_points(names: set[str], copy: Path) -> None:
    """Write metadata into ``copy`` that hide the installed ones, which list all plug-ins."""
    distribution = importlib.metadata.distribution(DISTRIBUTION)
    metadata = copy / f"{DISTRIBUTION.replace('-', '_')}-{distribution.version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(distribution.read_text("METADATA") or "")
    lines = (distribution.read_text("entry_points.txt") or "").splitlines()
    removed = homes(names)
    kept = [line for line in lines if line.partition(" = ")[2] not in removed]
    (metadata / "entry_points.txt").write_text("\n".join(kept) + "\n")


def run_tests(names: set[str], arguments: list[str]) -> int:
    """Run the tests that are left without some plug-ins; return pytest's exit code."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "copy"
        copy.mkdir()
        copy_without(names, copy)
        command = [sys.executable, "-m", "pytest", "-q", "-m", MARKS, *SKIPPED, *arguments]
        environment = os.environ | {"PYTHONPATH": str(copy)}
        if GATE in names:  # the installed metadata, which pytest reads, too, name its plug-in
            environment["PYTEST_ADDOPTS"] = "-p no:harness"
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def main() -> int:
    arguments = sys.argv[1:]
    separator = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args(arguments[:separator])
    removable = [name for name in shipped() if name not in NEEDED_BY_TESTS]
    failed = []
    for name in removable if options.all else options.names:
        removed = with_dependents(removable if name == ALL_BUT_NEEDED else [name])
        print(f"Without {', '.join(sorted(removed))}:", flush=True)
        if run_tests(removed, arguments[separator + 1 :]):
            failed.append(name)
    print(f"Tests fail without {', '.join(failed)}." if failed else "All tests pass.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
