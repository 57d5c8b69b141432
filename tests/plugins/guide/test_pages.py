"""`harness docs`, and what a package index shows."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.command import ROOT, harness, mistake

sys.path.append(str(ROOT / "scripts"))


def test_pages_are_listed_with_their_titles() -> None:
    found = json.loads(harness("docs", "--format", "json").stdout)
    assert found["check"] == "A gate for releases"
    assert "tutorials/study" in found
    assert all(found.values())
    assert "A gate for releases" in harness("docs").stdout


@pytest.mark.parametrize("name", ["check", "docs/check.md"])
def test_a_page_is_written_as_it_is(name: str) -> None:
    assert harness("docs", name).stdout == (ROOT / "docs/check.md").read_text() + "\n"


def test_the_base_classes_of_plug_ins_are_a_page() -> None:
    page = harness("docs", "reference/ports").stdout
    assert page.startswith("# Base classes of plug-ins")
    assert "def key_part(self, request: Request) -> str:" in page
    assert "reference/ports" in json.loads(harness("docs", "--format", "json").stdout)


def test_an_unknown_page_has_a_remedy() -> None:
    assert "Did you mean 'jsonl'?" in mistake(harness("docs", "jsonnl"))


def test_words_find_sections_whose_heading_has_them_first() -> None:
    found = json.loads(harness("docs", "custom", "metric", "--format", "json").stdout)
    assert next(iter(found)) == "how_to: Add a custom metric"
    assert "density" not in "".join(found)  # a line of the section, not its code
    lines = harness("docs", "stop_on_pass").stdout
    assert "run-files: Run files" in lines
    assert "To read one" in harness("docs", "stop_on_pass").stderr


def test_pages_that_messages_name_exist() -> None:
    texts = [path.read_text() for path in (ROOT / "harness").rglob("*.py")]
    named = {page for text in texts for page in re.findall(r"docs/([\w/]+)\.md", text)}
    pages = json.loads(harness("docs", "--format", "json").stdout)
    assert named - {"NAME"} <= pages.keys()


def test_the_index_shows_a_readme_without_relative_links() -> None:
    readme = pytest.importorskip("pypi_readme")
    text = readme.without_relative_links((ROOT / "README.md").read_text())
    assert "harness docs" in text
    assert not [link for link in re.findall(r"\]\(([^)]*)\)", text) if "://" not in link]
    assert "pip install harness-instruct" in text


def test_the_wheel_has_pages_and_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "docs" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert project["project"]["license-files"] == ["LICENSE"]
    assert Path(ROOT / "LICENSE").is_file()


def test_messages_name_the_command_that_prints_a_page_not_its_file() -> None:
    page = re.compile(r"\bdocs/\S+\.md")
    for file in (ROOT / "harness").rglob("*.py"):
        source = file.read_text()
        if not page.search(source):
            continue
        nodes = [*ast.walk(ast.parse(source))]
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and id(node) not in docstrings:
                assert not page.search(str(node.value)), (file, node.lineno)
