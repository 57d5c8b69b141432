"""Markdown: the running text of a folder of files, or of one file.

Headings, lists, tables, code, pictures and HTML are dropped as unnatural text; of links and
emphasis the words stay. Each paragraph becomes one line, with a blank line between paragraphs.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.builders.loaders._files import FileLoader
from harness.datasets.folder import DataFolder
from harness.records import Document

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

FRONT_MATTER = re.compile(r"\A---\n(?:.*\n)*?---(?:\n|\Z)")


class MarkdownLoader(FileLoader):
    """A document per Markdown file."""

    def __init__(
        self, path: str, files: str = "**/*.md", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        super().__init__(path, files, encoding, data=data)

    def _document(self, name: str) -> Document:
        document = super()._document(name)
        return replace(document, text=running_text(document.text))


def running_text(markdown: str) -> str:
    """Return the paragraphs of Markdown without markup.

    >>> running_text("# Snow\\n\\nIt *fell*\\nall [night](url).\\n\\n- an item")
    'It fell all night.'
    """
    tokens = _parser().parse(FRONT_MATTER.sub("", markdown))
    paragraphs = [
        "".join(map(_words, inline.children or []))
        for opening, inline in pairwise(tokens)
        if opening.type == "paragraph_open" and opening.level == 0
    ]
    return "\n\n".join(filter(None, map(str.strip, paragraphs)))


def _words(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return token.content if token.type in ("text", "code_inline") else ""


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


plugin = MarkdownLoader
