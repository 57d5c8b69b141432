"""Verbs of other packages that cannot be loaded."""

import os
from pathlib import Path

import pytest

from harness.cli.verbs import next_steps
from tests.cli.command import harness, mistake
from tests.cli.test_run import GPT4
from tests.installed import has_run_step, install_plugin

CODE = """
    def greet(name: str, loudly: bool = False) -> None:
        print(name.upper() if loudly else name)

    def unannotated(name: str, by=""): ...

    def misspelt(name: "Strng"): ...
    """


def run_verb(site: Path, place: str, *arguments: str) -> object:
    verb = f"verbs={{'greet': Verb(summary='Greet.', heading='Run', target={place!r})}}"
    install_plugin(site, CODE, {}, fields=verb)
    return harness("greet", *arguments, env=os.environ | {"PYTHONPATH": str(site)})


def test_a_verb_of_another_package_runs(tmp_path: Path) -> None:
    ended = run_verb(tmp_path, "third:greet", "Ann", "--loudly")
    assert (ended.returncode, ended.stdout) == (0, "ANN\n")


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("absent_module:greet", "ModuleNotFoundError: No module named 'absent_module'"),
        ("third:absent", "AttributeError: module 'third' has no attribute 'absent'"),
        ("third:unannotated", "TypeError: its parameter 'by' has no annotation, such as by: str"),
        ("third:misspelt", "NameError: name 'Strng' is not defined"),
    ],
)
def test_a_verb_that_cannot_be_loaded_is_named_with_its_package(
    tmp_path: Path, place: str, error: str
) -> None:
    said = mistake(run_verb(tmp_path, place, "Ann"))
    assert f"The verb 'greet' from third cannot be loaded ({error}" in said
    assert "harness: Fix or uninstall" not in said


def test_next_steps_name_only_verbs_that_are_installed() -> None:
    assert next_steps("To list: harness ls", "harness nonesuch x", "harness mv a b") == (
        "To list: harness ls; harness mv a b"
    )
    assert next_steps("harness nonesuch") == ""


@pytest.mark.skipif(has_run_step("dry_run"), reason="its package is installed")
def test_a_dry_run_without_its_package_names_the_remedy() -> None:
    assert "Install a plug-in that brings it." in mistake(harness("run", *GPT4[1:], "--dry-run"))
