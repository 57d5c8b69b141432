"""`harness docs` and `harness init`: the documentation's pages, and the files to start from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from harness import ports
from harness.cli.options import JsonFormat
from harness.config.shipped import ROOTS
from harness.errors import ConfigError, nearest
from harness.report.text import printable
from harness.store.files import make_folder, write_whole
from harness.terminal.console import output, say, show_facts, show_listing

MOST_FOUND = 15  # sections that a search lists
INTERFACES = "reference/ports"  # the page that shows the base classes of plug-ins


def docs(
    words: Annotated[list[str] | None, typer.Argument(metavar="[PAGE | WORDS]")] = None,
    form: JsonFormat = "table",
) -> None:
    """List the pages of the documentation, show one, or search them.

    In a terminal, the page is rendered. In a file or pipe, it is written as Markdown.

    Args:
        words: A page, such as how_to or docs/how_to.md. If there is no such page, the sections that
            contain all of the words are listed, best first.
    """
    pages = _pages()
    page = " ".join(words or ())
    if not page:
        titles = {name: _title(name, path) for name, path in pages.items()}
        if form == "json":
            show_listing("", titles, form)
        else:
            show_facts(titles)
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        matches = _search(pages, page.lower().split())
        if not matches:
            problem = f"There is no page {page!r}, and no section that contains it."
            raise ConfigError(problem, nearest(name, pages))
        if form == "json":
            return show_listing("", matches, form)
        show_facts(dict(list(matches.items())[:MOST_FOUND]))
        say("To read one: harness docs PAGE")
        return None
    text = printable(_text(name, pages[name]), "\n\t")
    output.print(Markdown(text) if output.is_terminal else text, soft_wrap=True, markup=False)
    return None


def _text(name: str, path: Path) -> str:
    """Return the Markdown of a page. That of `INTERFACES` is the source of the base classes."""
    text = path.read_text("utf-8")
    return f"# {_title(name, path)}\n\n```python\n{text}```" if name == INTERFACES else text


def _search(pages: Mapping[str, Path], words: Sequence[str]) -> dict[str, str]:
    """Map the sections that contain all words to their first matching lines, best first."""
    matches: dict[str, tuple[bool, int, str]] = {}
    for name, path in pages.items():
        for heading, lines in _sections(_text(name, path)):
            text = "\n".join([heading, *lines]).lower()
            if all(word in text for word in words):
                there = (line for line in lines if any(word in line.lower() for word in words))
                in_heading = all(word in heading.lower() for word in words)
                n = sum(text.count(word) for word in words)
                matches[f"{name}: {heading}"] = in_heading, n, next(there, "").strip()
    order = sorted(matches, key=lambda place: matches[place][:2], reverse=True)
    return {place: matches[place][2] for place in order}


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    heading = ""
    lines = list[str]()
    code = False
    for line in text.splitlines():
        code ^= line.startswith("```")
        if line.startswith("#") and not code:
            yield heading, lines
            heading = line.lstrip("# ")
            lines = []
        else:
            lines.append(line)
    yield heading, lines


def _pages() -> dict[str, Path]:
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
        write_whole(folder / path.name, path.read_bytes())
    say(f"Written: {', '.join(str(folder / path.name) for path in files)}")
    if slurm:
        say("Next: set the run file and the resources in one of them, then: sbatch my_array.sbatch")
        return
    enter = "" if folder == Path() else f"cd {folder} && "
    say(f"Next: {enter}harness run my_run.yaml     (offline; change the rows, then the model)")
    say("Then: harness report my_run     (a page with every answer)")
