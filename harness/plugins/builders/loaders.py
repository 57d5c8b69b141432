"""Built-in loaders of corpora (`harness.ports.Loader`): files, word lists and rows of tables.

An unreadable document does not end the build, and has a `Document.problem`.
"""

from __future__ import annotations

import copy
import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing, nearest
from harness.plugins.builders.rows import (
    LARGEST,
    ArrowRows,
    JsonlRows,
    ParquetRows,
    RowRange,
    WarcRows,
    files_of,
    is_below,
    row_parts,
)
from harness.records import Document

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_FACTS = 8  # maximum number of facts kept about a row
LONGEST_FACT = 200  # maximum characters of a fact

BLANK_LINE_SPACES = re.compile(r"^[ \t]+$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\n(?:.*\n)*?---(?:\n|\Z)")
METADATA = "gutenberg-metadata.json"
BEGIN = re.compile(r"^\*\*\* ?START OF TH[^\n]*\n", re.MULTILINE)
END = re.compile(r"^\*\*\* ?END OF TH", re.MULTILINE)
WORDS_A_DOCUMENT = 1000
FILES_A_PART = 32


class FileLoader:
    """Loads one document from a file, or from each file below a folder. Unpacks ``.gz`` files."""

    pattern = "**/*"  # used if the option ``files`` is not given

    def __init__(
        self, path: str, files: str = "", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        self._root, self._encoding = data.place(path).absolute(), encoding
        self._pattern = files or self.pattern
        self._part: list[str] = []  # the names of the files, in a part
        try:
            "".encode(encoding)
        except LookupError:
            raise ConfigError(
                f"There is no encoding {encoding!r}.", "Write a name such as utf-8."
            ) from None

    def names(self) -> Iterator[str]:
        """Yield the file's name or, for a folder, the sorted relative paths of matching files."""
        if self._part or self._root.is_file():
            yield from self._part or [self._root.name]
            return
        try:
            files = [path for path in self._root.glob(self._pattern) if path.is_file()]
        except (ValueError, NotImplementedError, OSError) as error:
            raise ConfigError(f"{self._pattern!r} is not a valid file pattern ({error}).") from None
        paths = {path.relative_to(self._root) for path in files}
        names = sorted(p.as_posix() for p in paths if not any(part[0] == "." for part in p.parts))
        if not names:
            remedy = "Check the path, or name the files in the source's load section."
            raise DataMissing(f"{self._root} has no file {self._pattern}.", remedy)
        yield from names

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the order of `names`."""
        return (self._document(name) for name in self.names() if name in names)

    def parts(self) -> Iterator[FileLoader]:
        """Yield loaders, each for some consecutive files."""
        names = self.names()
        while some := list(islice(names, FILES_A_PART)):
            yield self._part_of(some)

    def _part_of(self, names: list[str]) -> FileLoader:
        part = copy.copy(self)
        part._part = names
        return part

    def _document(self, name: str) -> Document:
        path = self._root if self._root.is_file() else self._root / name
        text, problem = self._text_or_problem(path)
        shown = name.encode("utf-8", "backslashreplace").decode()  # a name may not be UTF-8
        return Document(shown, text, problem=problem)

    def _text_or_problem(self, path: Path) -> tuple[str, str]:
        try:
            if not is_below(path, self._root):
                return "", "outside the folder"
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except (OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
            return "", f"cannot be read ({getattr(error, 'strerror', None) or error})"
        if len(content) > LARGEST:
            return "", f"more than {LARGEST:,} bytes"
        if b"\0" in content and "16" not in self._encoding and "32" not in self._encoding:
            return "", "not text"
        try:
            text = content.decode(self._encoding)
            text.encode()  # some encodings decode lone surrogates, which are not characters
        except UnicodeError:
            return "", f"not in {self._encoding}"
        return _normalised(text), ""


def _normalised(text: str) -> str:
    r"""Return text with ``\n`` as line ends, no byte-order mark, and no spaces in blank lines."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return BLANK_LINE_SPACES.sub("", plain)


class MarkdownLoader(FileLoader):
    """Loads one document from each Markdown file: its top-level paragraphs, without markup."""

    pattern = "**/*.md"

    def _document(self, name: str) -> Document:
        document = super()._document(name)
        return replace(document, text=running_text(document.text))


def running_text(markdown: str) -> str:
    """Return the text of a Markdown document's top-level paragraphs, without markup."""
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


class GutenbergLoader(FileLoader):
    """Loads one document per Project Gutenberg book; given metadata, only books in one language."""

    def __init__(
        self, path: str, language: str = "English", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        super().__init__(path, "**/*.txt", encoding, data=data)
        metadata = self._root / METADATA
        self._books = _books(metadata, language) if metadata.is_file() else {}

    def names(self) -> Iterator[str]:
        """Yield the books' paths, relative to the folder."""
        return iter(self._books) if self._books else super().names()

    def _part_of(self, names: list[str]) -> FileLoader:
        part = copy.copy(self)
        part._part, part._books = names, {name: self._books.get(name, {}) for name in names}
        return part

    def _document(self, name: str) -> Document:
        book = super()._document(name)
        return replace(book, text=body(book.text), about=self._books.get(name, {}))


def _books(metadata: Path, language: str) -> dict[str, dict[str, Any]]:
    """Map the path of each book in a language to its title and author, if they are known."""
    try:
        rows = msgspec.json.decode(metadata.read_bytes(), type=list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise DataInvalid(f"{metadata}: not a list of books ({error}).") from None
    found: dict[str, dict[str, Any]] = {
        name: {fact: row[fact] for fact in ("Title", "Author") if fact in row}
        for row in rows
        if isinstance(name := row.get("gd-path"), str) and language in (row.get("Language") or [])
    }
    if not found:
        raise DataInvalid(f"{metadata} has no book in {language}.")
    return found


def body(text: str) -> str:
    """Return a book's text without Project Gutenberg's header and licence."""
    begin = BEGIN.search(text)
    text = text[begin.end() :] if begin else text
    end = END.search(text)
    return text[: end.start()] if end else text


class WordListLoader(FileLoader):
    """Loads a document for every 1,000 words of a file with one word per line."""

    def __init__(self, path: str, encoding: str = "utf-8", *, data: DataFolder) -> None:
        super().__init__(str(data.file(path)), "", encoding, data=data)

    def parts(self) -> Iterator[FileLoader]:
        """Yield this loader: a list is not divided."""
        yield self

    def names(self) -> Iterator[str]:
        """Yield the numbers of the documents' first words in the list: "1", "1001" and so on."""
        return (document.name for document in self._documents())

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the order of `names`."""
        return (document for document in self._documents() if document.name in names)

    def _documents(self) -> Iterator[Document]:
        whole = self._document(self._root.name)
        if whole.problem:
            raise DataInvalid(f"{self._root} is not a word list: {whole.problem}.")
        words = list(filter(None, map(str.strip, whole.text.splitlines())))
        for first in range(0, len(words), WORDS_A_DOCUMENT):
            yield Document(str(first + 1), "\n".join(words[first : first + WORDS_A_DOCUMENT]))


def row_document(name: str, row: Mapping[str, Any], column: str) -> Document:
    """Return a table row as a document. Its text is the value in ``column``.

    The first `MOST_FACTS` short strings and integers in other columns become its facts. If the text
    is missing, too long or not a string, the document has a ``problem`` instead.
    """
    if column not in row:
        remedy = nearest(column, map(str, row))
        return Document(name, "", problem=f"has no column {column!r}. {remedy}".strip())
    text = row[column]
    others = ((key, value) for key, value in row.items() if key != column)
    short = (f for f in others if isinstance(f[1], str | int) and len(str(f[1])) <= LONGEST_FACT)
    about = dict(islice(short, MOST_FACTS))
    if not isinstance(text, str):
        return Document(name, "", about, f"{column!r} is not text")
    if len(text) > LARGEST:
        return Document(name, "", about, f"more than {LARGEST:,} characters")
    return Document(name, _normalised(text), about)


@dataclass(frozen=True)
class RowDocuments:
    """Loads each row of a part of a file as a document, with its text in a column."""

    rows: RowRange
    column: str

    def names(self) -> Iterator[str]:
        """Yield the names of the rows."""
        return map(self.rows.name, self.rows.numbers())

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the order of `names`."""
        for number, row in self.rows.rows(names):
            name = self.rows.name(number)
            if isinstance(row, str):
                yield Document(name, "", problem=row)
            else:
                yield row_document(name, row, self.column)


class RowLoader:
    """Loads one document from each row of a file, or of all files of the format below a folder.

    A document's name is the number of its row or, if there are several files, ``FILE/ROW``.
    """

    format: type[RowRange]

    def __init__(self, path: str, column: str = "text", *, data: DataFolder) -> None:
        self._files, self._column = files_of(data.place(path), self.format), column

    def parts(self) -> Iterator[RowDocuments]:
        """Yield loaders, each for some consecutive rows."""
        return (RowDocuments(rows, self._column) for rows in row_parts(self._files, self.format))

    def names(self) -> Iterator[str]:
        """Yield the names of all rows, file by file."""
        return (name for part in self.parts() for name in part.names())

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the order of `names`."""
        return (document for part in self.parts() for document in part.read(names))


class JsonlLoader(RowLoader):
    """Loads one document from each line of JSONL, compressed or not. Lines are counted from 1."""

    format = JsonlRows


class ParquetLoader(RowLoader):
    """Loads one document from each row of Parquet. Rows are counted from 0."""

    format = ParquetRows


class ArrowLoader(RowLoader):
    """Loads one document from each row of Arrow files, as the library datasets saves them."""

    format = ArrowRows


class WarcLoader(RowLoader):
    """Loads one document from each plain-text record of WARC files. Records are counted from 1."""

    format = WarcRows

    def __init__(self, path: str, *, data: DataFolder) -> None:
        super().__init__(path, data=data)
