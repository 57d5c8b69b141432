"""`harness docs`: the documentation's pages, which are part of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from harness.cli.console import JsonFormat, output, show_facts, show_listing
from harness.config.shipped import ROOTS
from harness.errors import ConfigError, nearest
from harness.report.text import printable


def docs(page: Annotated[str, typer.Argument()] = "", form: JsonFormat = "table") -> None:
    """List the pages of the documentation, or show one.

    In a terminal, the page is rendered. In a file or pipe, it is written as Markdown.

    Args:
        page: A page, such as how_to or docs/how_to.md.
    """
    pages = _pages()
    if not page:
        titles = {name: _title(path) for name, path in pages.items()}
        if form == "json":
            show_listing("", titles, form)
        else:
            show_facts(titles)
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise ConfigError(f"There is no page {page!r}.", nearest(name, pages))
    text = printable(pages[name].read_text("utf-8"), "\n\t")
    output.print(Markdown(text) if output.is_terminal else text, soft_wrap=True, markup=False)


def _pages() -> dict[str, Path]:
    """Return the paths of all pages by name, such as "check" and "tutorials/study", sorted."""
    found = {}
    for root in (root / "docs" for root in ROOTS):
        for path in sorted(root.rglob("*.md")):
            found[path.relative_to(root).with_suffix("").as_posix()] = path
    return {name: path for name, path in found.items() if not name.startswith("reference/")}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next((line[2:].strip() for line in file if line.startswith("# ")), "")
