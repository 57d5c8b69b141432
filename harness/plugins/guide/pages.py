"""`harness docs` and `harness init`: the documentation's pages, and the files to start from."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from harness import ports
from harness.cli.options import JsonFormat
from harness.config.shipped import ROOTS
from harness.errors import ConfigError, suggest_name
from harness.plugins.guide.search import DocumentSection, SectionIndex, sections_of
from harness.report.text import escape_text, escape_unprintable
from harness.store.files import make_folder, write_atomically
from harness.terminal.console import output, print_facts, print_listing, say
from harness.wording import format_count, truncate

MOST_MATCHES = 6  # sections that a search shows
LONGEST_CONTEXT = 150  # characters of the line that a search shows of a section
INTERFACES = "reference/ports"  # the page that shows the base classes of plug-ins


def docs(
    words: Annotated[list[str] | None, typer.Argument(metavar="[PAGE | WORDS]")] = None,
    form: JsonFormat = "table",
) -> None:
    """List the pages of the documentation, show one, or search them.

    In a terminal, the page is rendered. In a file or pipe, it is written as Markdown.

    Args:
        words: A page, such as how_to, or a section of it, such as how_to#set-stop-sequences. If
            there is no such page, the words are searched for, such as: disable cache. Words of like
            meaning count too.
    """
    pages = documentation_pages()
    text = " ".join(words or ())
    if not text:
        titles = {name: _title(name, path) for name, path in pages.items()}
        if form == "json":
            print_listing("", titles, form)
        else:
            print_facts(titles)
        return
    page, _, anchor = text.removeprefix("docs/").partition("#")
    name = page.removesuffix(".md")
    if name not in pages:
        _show_matches(text, pages, form)
    elif anchor:
        _print_markdown(_section(name, anchor, pages))
    else:
        _print_markdown(_text(name, pages[name]))


def _print_markdown(text: str) -> None:
    markdown = escape_unprintable(text, "\n\t")
    output.print(
        Markdown(markdown) if output.is_terminal else markdown, soft_wrap=True, markup=False
    )


def section_index(pages: Mapping[str, Path]) -> SectionIndex:
    """Return an index of the sections of all pages, which are given by name."""
    return SectionIndex(section for name in pages for section in _sections(name, pages))


def _show_matches(text: str, pages: Mapping[str, Path], form: str) -> None:
    """Show the sections that answer a question, with the commands that print them.

    Raises:
        ConfigError: If there is none. The remedy suggests similar words and pages.
    """
    index = section_index(pages)
    matches = index.search(text)
    if not matches:
        problem = f"There is no page {text!r}, and no section about it."
        similar = get_close_matches(text, pages, n=1, cutoff=0.7)
        suggestions = similar or index.suggestions(text)
        remedy = "'harness docs' lists the pages; 'harness docs how_to' has short answers."
        if suggestions:
            remedy = f"Did you mean {' or '.join(map(repr, suggestions[:3]))}? {remedy}"
        raise ConfigError(problem, remedy)
    facts = {}
    for match in matches:
        section = match.section
        facts[f"{section.page}: {section.heading}"] = _context(match.context)
    if form == "json":
        print_listing("", facts, form)
        return
    for match in matches[:MOST_MATCHES]:
        section = match.section
        output.print(
            escape_text(f"{section.page}: {section.heading}"), style="bold", soft_wrap=True
        )
        if context := _context(match.context):
            output.print(escape_text(f"  {context}"), soft_wrap=True)
        output.print(escape_text(f"  harness docs {section.place}"), style="dim", soft_wrap=True)
    n_others = len(matches) - MOST_MATCHES
    if n_others > 0:
        say(f"{format_count(n_others, 'more section')}: add a word, or --format json.")


def _context(text: str) -> str:
    """Return the beginning of a text as one line, without the marks of Markdown."""
    text = re.sub(r"!?\[([^][]+)\]\([^)\s]*\)", r"\1", " ".join(text.split()))
    text = text.replace("**", "").strip("-|! ")
    return truncate(re.sub(r"\s\|\s", ": ", text), LONGEST_CONTEXT)


def _text(name: str, path: Path) -> str:
    """Return the Markdown of a page. That of `INTERFACES` is the source of the base classes."""
    text = path.read_text("utf-8")
    return f"# {_title(name, path)}\n\n```python\n{text}```" if name == INTERFACES else text


def _sections(name: str, pages: Mapping[str, Path]) -> Iterator[DocumentSection]:
    path = pages[name]
    return sections_of(name, _title(name, path), _text(name, path))


def _section(name: str, anchor: str, pages: Mapping[str, Path]) -> str:
    """Return the Markdown of a page's section, with its subsections.

    Raises:
        ConfigError: If the page has no such section.
    """
    lines: list[str] = []
    level = 0
    for section in _sections(name, pages):
        if level and section.level <= level:
            break
        if level or section.anchor == anchor:
            level = level or section.level
            lines += [f"{'#' * section.level} {section.heading}", *section.lines]
    if not lines:
        anchors = [section.anchor for section in _sections(name, pages)]
        problem = f"The page {name!r} has no section {anchor!r}."
        raise ConfigError(problem, suggest_name(anchor, anchors))
    return "\n".join(lines).rstrip()


def documentation_pages() -> dict[str, Path]:
    """Return the pages' paths by name, such as "tutorials/study". Of reference/, one is shown."""
    paths = {}
    for root in (root / "docs" for root in ROOTS):
        for path in sorted(root.rglob("*.md")):
            paths[path.relative_to(root).with_suffix("").as_posix()] = path
    pages = {name: path for name, path in paths.items() if not name.startswith("reference/")}
    return {**pages, INTERFACES: Path(ports.__file__)}


def _title(name: str, path: Path) -> str:
    if name == INTERFACES:
        return "Base classes of plug-ins: their methods, arguments and defaults"
    with path.open(encoding="utf-8") as file:
        return next((line[2:].strip() for line in file if line.startswith("# ")), "")


STARTER = Path(__file__).with_name("starter")
SLURM = "slurm"  # subfolder with batch files


def init(folder: Annotated[Path, typer.Argument(metavar="FOLDER")] = Path()) -> None:
    """Write the files of a first benchmark: a run file, rows and a check.

    'harness init slurm' writes batch files for Slurm to this folder instead.

    Args:
        folder: The folder to write to, created if it is missing; no file is replaced.
    """
    slurm = folder == Path(SLURM)
    source, folder = (STARTER / SLURM, Path()) if slurm else (STARTER, folder)
    files = sorted(path for path in source.iterdir() if path.name.startswith("my_"))
    if existing := [path.name for path in files if (folder / path.name).exists()]:
        problem = f"{folder / existing[0]} exists, and would be replaced."
        raise ConfigError(problem, "Remove it, or name another folder: harness init FOLDER.")
    make_folder(folder)
    for path in files:
        write_atomically(folder / path.name, path.read_bytes())
    say(f"Written: {', '.join(str(folder / path.name) for path in files)}")
    if slurm:
        say("Next: set the run file and the resources in one of them, then: sbatch my_array.sbatch")
        return
    enter = "" if folder == Path() else f"cd {folder} && "
    say(f"Next: {enter}harness run my_run.yaml     (offline; change the rows, then the model)")
    say("Then: harness report my_run     (a page with every answer)")
