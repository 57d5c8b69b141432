"""`harness docs`, and what a package index shows."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from harness.calls.database import FORMAT_VERSION
from harness.plugins.guide.pages import documentation_pages, section_index
from harness.records import CRASH_VERSION, METRICS_VERSION, SCHEMA_VERSION
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
    lines = harness("docs", "stop_on_pass").stdout.splitlines()
    assert lines[lines.index("run-files: Run files") + 2] == "  harness docs run-files"


QUESTIONS = yaml.safe_load((Path(__file__).with_name("questions.yaml")).read_text())


@pytest.fixture(scope="module")
def places_of_questions() -> dict[str, list[str]]:
    """Return the places that a search finds for each question, best first."""
    index = section_index(documentation_pages())
    places: dict[str, list[str]] = {}
    for question in QUESTIONS:
        sections = [match.section for match in index.search(question)]
        places[question] = [f"{section.page}: {section.heading}" for section in sections]
    return places


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_place_that_answers_a_question_comes_first(
    question: str, places_of_questions: dict[str, list[str]]
) -> None:
    first = places_of_questions[question][0]
    page = first.partition(": ")[0]
    assert {first, page} & {*QUESTIONS[question]}, places_of_questions[question][:5]


def test_every_place_of_the_questions_exists() -> None:
    pages = documentation_pages()
    for place in {place for places in QUESTIONS.values() for place in places}:
        page, _, heading = place.partition(": ")
        if page == "tutorials/json_output":  # a notebook
            continue
        text = pages[page].read_text()
        assert not heading or re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE), place


def test_each_section_that_a_search_shows_can_be_opened_by_its_command() -> None:
    lines = harness("docs", "disable", "cache").stdout.splitlines()
    assert 3 <= len(lines) <= 18
    titles = lines[::3]
    commands = lines[2::3]
    for title, command in zip(titles, commands, strict=True):
        opened = harness(*command.split()[1:]).stdout
        heading = title.partition(": ")[2]
        assert opened.splitlines()[0].lstrip("# ") == heading


def test_a_section_is_shown_with_its_subsections() -> None:
    section = harness("docs", "limits.md#failures").stdout
    assert section.startswith("## Failures")
    assert "### Outages" in section
    assert "## Money" not in section
    assert "no section 'failure'" in mistake(harness("docs", "limits#failure"))
    assert "Did you mean 'failures'?" in mistake(harness("docs", "limits#failure"))


def test_words_that_nothing_matches_get_similar_ones() -> None:
    message = mistake(harness("docs", "cachng", "zorgle"))
    assert "no section about it" in message
    assert "Did you mean 'caching'" in message
    assert "harness docs how_to" in mistake(harness("docs", "zorgle"))


@pytest.mark.parametrize("words", ['"', "*", "NEAR(", "a AND", "text:x", "--", "cache OR"])
def test_marks_of_a_query_language_are_plain_text(words: str) -> None:
    ended = harness("docs", "--", words)
    assert ended.returncode in (0, 1)
    assert "Traceback" not in ended.stderr


def test_the_page_on_upgrading_states_the_versions_of_formats() -> None:
    page = harness("docs", "upgrading").stdout
    assert f"`v` (now {SCHEMA_VERSION}; {CRASH_VERSION} for crashes)" in page
    assert SCHEMA_VERSION == METRICS_VERSION
    assert f"`schema_version` (now {METRICS_VERSION})" in page
    assert f"states its format (now {FORMAT_VERSION})" in page


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
