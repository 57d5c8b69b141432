"""Remove plug-ins in turn, and run the tests of what is left.

    python scripts/without_plugin.py NAME ... [-- PYTEST ARGUMENTS]
    python scripts/without_plugin.py NAME+NAME ... [-- PYTEST ARGUMENTS]
    python scripts/without_plugin.py --all [-- PYTEST ARGUMENTS]

For each plug-in, the files that git tracks are copied to a temporary folder. From the copy, the
script removes the folders, tests and entry points of the plug-in and of those that require it,
and the run files in `configs/` that use them. Then it runs the tests that are left, except those of
the documentation, which describes the whole distribution. A test of what is left that uses a
removed command, judge or the like is skipped, with the name. Mock and testing stay, since tests
need them. With ``core``, all other plug-ins are removed. The plug-in for pytest, whose entry point
is pytest's own, is removed with the gate, which it requires.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
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

REMOVED = "REMOVED_FROM_THE_HARNESS"
"""The variable with what a copy of the harness lacks, as a list in JSON."""
_LACKS = re.compile(
    r"There is no [\w -]+ '(?P<member>[^']+)'|No such command '(?P<verb>[^']+)'"
    r"|No module named '(?P<module>[^']+)'|No such file or directory: '(?P<file>[^']+)'"
)


def removed_feature(problem: str) -> str | None:
    """What a test reports as missing that the harness lacks because it was removed, if anything."""
    removed: list[str] = json.loads(os.environ.get(REMOVED, "[]"))
    for match in _LACKS.finditer(problem):
        missing = next(filter(None, match.groups()))
        names = {missing, missing.partition(":")[0], Path(missing).name}
        for feature in removed:
            if feature in names or missing.startswith(f"{feature}."):
                return feature
    return None


def _skip_if_removed(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.failed:
        return
    output = "\n".join(content for _, content in report.sections)
    feature = removed_feature(f"{report.longrepr}\n{output}")
    if feature is not None:
        report.outcome = "skipped"
        report.longrepr = (str(report.fspath), 0, f"Skipped: {feature} was removed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that needs a removed feature."""
    report = yield
    _skip_if_removed(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a module of tests that imports a removed plug-in."""
    report = yield
    _skip_if_removed(report)
    return report


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


def features(declaration: Declaration) -> set[str]:
    """The names of all that a plug-in brings: its packages, commands, members, sections, …"""
    plugin = declaration.plugin
    names = {declaration.name, declaration.home, *members(declaration)}
    for field in dataclasses.fields(plugin):
        value = getattr(plugin, field.name)
        if isinstance(value, Mapping):
            names.update(value)
    return names


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


def copy_without(names: set[str], copy: Path) -> set[str]:
    """Copy the tracked files to ``copy``, without some plug-ins; return the removed run files."""
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
    removed_run_files = set[str]()
    for run_file in (copy / "configs").glob("*.yaml"):
        if removed_members & strings(yaml.safe_load(run_file.read_text())):
            removed_run_files.add(run_file.name)
            run_file.unlink()
    if (ROOT.parent / "shared").is_dir():  # recorded data of others
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
    write_entry_points(names, copy)
    return removed_run_files


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
        removed = copy_without(names, copy)
        for name in names:
            removed |= features(shipped()[name])
        command = [sys.executable, "-m", "pytest", "-q", "-m", MARKS, *SKIPPED, *arguments]
        command += ["-p", "scripts.without_plugin"]  # this file
        environment = os.environ | {"PYTHONPATH": str(copy), REMOVED: json.dumps(sorted(removed))}
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
        removed = with_dependents(removable if name == ALL_BUT_NEEDED else name.split("+"))
        print(f"Without {', '.join(sorted(removed))}:", flush=True)
        if run_tests(removed, arguments[separator + 1 :]):
            failed.append(name)
    print(f"Tests fail without {', '.join(failed)}." if failed else "All tests pass.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
