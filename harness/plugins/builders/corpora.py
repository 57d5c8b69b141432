"""Built-in loaders, filters and post-processors of corpora (`harness.ports`).

Loaders read files, word lists and rows of tables. An unreadable document does not end the build,
and has a `Document.problem`. A filter returns True for text to drop. A corpus is untrusted text, so
filters and post-processors take linear time, except the filter `pattern`, which has a time limit.
"""

from __future__ import annotations

import gzip
import json
import re
import string
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace

from harness.datasets.folder import DataFolder, numbered_lines, parquet_rows
from harness.errors import ConfigError, DataInvalid, DataMissing, suggest_name
from harness.plugin import Loader
from harness.plugins.benchmarks.collie.constraints.check import Splitter
from harness.ports import Filter, PostProcessor
from harness.records import Document, JsonObject, replace_surrogates
from harness.scoring.patterns import Pattern, PatternTooSlow

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


FEW = 1_000  # rows that a query selects by their numbers; of more rows, it reads the whole range

Row = JsonObject | str  # a row, or a description of why it cannot be read


def _every(number: int) -> bool:
    return True


class FileRows(ABC):
    """The rows of a file."""

    patterns: ClassVar[Sequence[str]]  # of the files' names in a folder
    unit: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @abstractmethod
    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the rows."""

    @abstractmethod
    def rows(self, is_chosen: Callable[[int], bool] = _every) -> Iterator[tuple[int, Row]]:
        """Yield (number, row) for each row whose number is wanted."""


class JsonlRows(FileRows):
    """Lines of JSONL, numbered from 1. Blank lines are skipped."""

    patterns = ("**/*.jsonl", "**/*.jsonl.gz", "**/*.json.gz")
    unit = "line"

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the lines that are not blank."""
        return (number for number, _ in numbered_lines(self.path))

    def rows(self, is_chosen: Callable[[int], bool] = _every) -> Iterator[tuple[int, Row]]:
        """Yield (number, row) for each wanted line. A string describes an invalid line."""
        for number, line in numbered_lines(self.path):
            if not is_chosen(number):
                continue
            row: Row
            try:
                row = json_object(line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                row = f"not a JSON object ({error})"
            yield number, row


def json_object(line: bytes) -> JsonObject:
    """Decode a JSON object. Lone surrogates, such as half an emoji, become U+FFFD.

    Raises:
        msgspec.MsgspecError, RecursionError, ValueError: If the line is not a JSON object.
    """
    try:
        return msgspec.json.decode(line, type=JsonObject)
    except msgspec.MsgspecError:
        plain = replace_surrogates(json.dumps(json.loads(line), ensure_ascii=False))
        return msgspec.json.decode(plain, type=JsonObject)


class ParquetRows(FileRows):
    """Rows of a Parquet file, numbered from 0."""

    patterns = ("**/*.parquet",)
    unit = "row"

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the rows."""
        [total] = parquet_rows(self.path, "SELECT count(*) AS n FROM read_parquet($file)")
        return iter(range(total["n"]))

    def rows(self, is_chosen: Callable[[int], bool] = _every) -> Iterator[tuple[int, Row]]:
        """Yield the wanted rows, which need not fit in memory."""
        numbers = list(filter(is_chosen, self.numbers()))
        if not numbers:
            return
        query = (
            "SELECT * FROM read_parquet($file, file_row_number = true) "
            "WHERE file_row_number BETWEEN $first AND $last"
        )
        values: dict[str, Any] = {"first": numbers[0], "last": numbers[-1]}
        if len(numbers) <= FEW:
            query += " AND list_contains($some, file_row_number)"
            values["some"] = numbers
        chosen = set(numbers)
        for row in parquet_rows(self.path, query, **values):
            number = row.pop("file_row_number")
            if number in chosen:
                yield number, row


FORMATS: dict[str, type[FileRows]] = {"jsonl": JsonlRows, "parquet": ParquetRows}


def files_of(place: Path, kind: type[FileRows]) -> list[Path]:
    """Return the file ``place``, or the files of a format below a folder, sorted by path."""
    if not place.is_dir():
        return [place]
    files = files_below(place, kind.patterns)
    for file in files:
        if not is_below(file, place):
            raise DataInvalid(f"{file} is outside the folder.", "Name the file itself.")
    return files


def files_below(
    folder: Path, patterns: Sequence[str], remedy: str = "Check the path."
) -> list[Path]:
    """Return the files below a folder that match one of the patterns, without hidden ones.

    Raises:
        DataMissing: If there are none.
    """
    paths: set[Path] = set()
    for pattern in patterns:
        paths.update(folder.glob(pattern))
    files = []
    for path in sorted(paths):
        is_hidden = any(part[0] == "." for part in path.relative_to(folder).parts)
        if path.is_file() and not is_hidden:
            files.append(path)
    if not files:
        names = " or ".join(pattern.removeprefix("**/") for pattern in patterns)
        raise DataMissing(f"{folder} has no file {names}.", remedy)
    return files


def format_of(place: Path) -> str:
    """Return the format of a file or of a folder's files, or "" if unknown.

    The format is a key of `FORMATS`. A folder with text files (``*.txt``) has none.
    """
    if place.is_dir() and any(place.glob("**/*.txt")):
        return ""
    for name, kind in FORMATS.items():
        for pattern in kind.patterns:
            if any(place.glob(pattern)) or place.match(pattern.removeprefix("**/")):
                return name
    return ""


def is_below(path: Path, root: Path) -> bool:
    """Return whether a path is ``root`` or inside it, after symbolic links are resolved."""
    return path.resolve().is_relative_to(root.resolve())


LARGEST = 64_000_000  # maximum bytes of an unpacked file, or characters of a row
MOST_FACTS = 8  # maximum number of facts kept about a row
LONGEST_FACT = 200  # maximum characters of a fact

BLANK_LINE_SPACES = re.compile(r"^[ \t]+$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\n(?:.*\n)*?---(?:\n|\Z)")
METADATA = "gutenberg-metadata.json"
BEGIN = re.compile(r"^\*\*\* ?START OF TH[^\n]*\n", re.MULTILINE)
END = re.compile(r"^\*\*\* ?END OF TH", re.MULTILINE)
WORDS_A_DOCUMENT = 1000
NO_FILES = "Check the path, or name the files in the source's load section."


class FileLoader(Loader):
    """Loads one document from a file, or from each file below a folder. Unpacks ``.gz`` files."""

    pattern = "**/*"  # used if the option ``files`` is not given

    def __init__(
        self, path: str, files: str = "", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        self._root = data.file_or_folder(path).absolute()
        self._encoding = encoding
        self._pattern = files or self.pattern
        try:
            "".encode(encoding)
        except LookupError:
            raise ConfigError(
                f"There is no encoding {encoding!r}.", "Write a name such as utf-8."
            ) from None

    def names(self) -> Iterator[str]:
        """Yield the file's name or, for a folder, the sorted relative paths of matching files."""
        if self._root.is_file():
            yield self._root.name
            return
        try:
            paths = files_below(self._root, [self._pattern], NO_FILES)
        except (ValueError, NotImplementedError, OSError) as error:
            raise ConfigError(f"{self._pattern!r} is not a valid file pattern ({error}).") from None
        yield from sorted(path.relative_to(self._root).as_posix() for path in paths)

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the order of `names`."""
        return (self._document(name) for name in self.names() if name in names)

    def _document(self, name: str) -> Document:
        path = self._root
        if not path.is_file():
            path /= name
        text, problem = self._text_or_problem(path)
        printable_name = name.encode("utf-8", "backslashreplace").decode()  # it may not be UTF-8
        return Document(printable_name, text, problem=problem)

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
    paragraphs = []
    for opening, inline in pairwise(tokens):
        if opening.type == "paragraph_open" and opening.level == 0:
            words = "".join(map(_words, inline.children or []))
            paragraphs.append(words.strip())
    return "\n\n".join(filter(None, paragraphs))


def _words(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    if token.type in ("text", "code_inline"):
        return token.content
    return ""


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
        self._books: dict[str, JsonObject] = {}
        if metadata.is_file():
            self._books = _books(metadata, language)

    def names(self) -> Iterator[str]:
        """Yield the books' paths, relative to the folder."""
        return iter(self._books) if self._books else super().names()

    def _document(self, name: str) -> Document:
        book = super()._document(name)
        return replace(book, text=body(book.text), about=self._books.get(name, {}))


def _books(metadata: Path, language: str) -> dict[str, JsonObject]:
    """Map the path of each book in a language to its title and author, if they are known."""
    try:
        rows = msgspec.json.decode(metadata.read_bytes(), type=list[JsonObject])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise DataInvalid(f"{metadata}: not a list of books ({error}).") from None
    books: dict[str, JsonObject] = {}
    for row in rows:
        name = row.get("gd-path")
        if isinstance(name, str) and language in (row.get("Language") or []):
            books[name] = {fact: row[fact] for fact in ("Title", "Author") if fact in row}
    if not books:
        raise DataInvalid(f"{metadata} has no book in {language}.")
    return books


def body(text: str) -> str:
    """Return a book's text without Project Gutenberg's header and licence."""
    if begin := BEGIN.search(text):
        text = text[begin.end() :]
    if end := END.search(text):
        text = text[: end.start()]
    return text


class WordListLoader(FileLoader):
    """Loads a document for every 1,000 words of a file with one word per line."""

    def __init__(self, path: str, encoding: str = "utf-8", *, data: DataFolder) -> None:
        super().__init__(str(data.file(path)), "", encoding, data=data)

    def names(self) -> Iterator[str]:
        """Yield the numbers of the documents' first words in the list: "1", "1001" and so on."""
        return (document.name for document in self._documents())

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the order of `names`."""
        return (document for document in self._documents() if document.name in names)

    def _documents(self) -> Iterator[Document]:
        word_list = self._document(self._root.name)
        if word_list.problem:
            raise DataInvalid(f"{self._root} is not a word list: {word_list.problem}.")
        words = list(filter(None, map(str.strip, word_list.text.splitlines())))
        for first in range(0, len(words), WORDS_A_DOCUMENT):
            part = words[first : first + WORDS_A_DOCUMENT]
            yield Document(str(first + 1), "\n".join(part))


def row_document(name: str, row: Row, column: str) -> Document:
    """Return a table row as a document. Its text is the value in ``column``.

    The first `MOST_FACTS` short strings and integers in other columns become its facts. If the text
    is missing, too long or not a string, the document has a ``problem`` instead.
    """
    if isinstance(row, str):
        return Document(name, "", problem=row)
    if column not in row:
        remedy = suggest_name(column, map(str, row))
        return Document(name, "", problem=f"has no column {column!r}. {remedy}".strip())
    about: JsonObject = {}
    for key, value in row.items():
        is_short = isinstance(value, str | int) and len(str(value)) <= LONGEST_FACT
        if key != column and is_short and len(about) < MOST_FACTS:
            about[key] = value
    text = row[column]
    if not isinstance(text, str):
        return Document(name, "", about, f"{column!r} is not text")
    if len(text) > LARGEST:
        return Document(name, "", about, f"more than {LARGEST:,} characters")
    return Document(name, _normalised(text), about)


class RowLoader(Loader):
    """Loads one document from each row of a file, or of all files of the format below a folder.

    A document's name is the number of its row or, if there are several files, ``FILE/ROW``.
    """

    format: type[FileRows]

    def __init__(self, path: str, column: str = "text", *, data: DataFolder) -> None:
        files = files_of(data.file_or_folder(path), self.format)
        self._files = {"": self.format(files[0])}
        if len(files) > 1:
            self._files = {f"{place}/": self.format(file) for place, file in enumerate(files)}
        self._column = column

    def names(self) -> Iterator[str]:
        """Yield the names of all rows, file by file."""
        for prefix, file in self._files.items():
            for number in file.numbers():
                yield f"{prefix}{number}"

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the order of `names`."""
        for prefix, file in self._files.items():

            def is_wanted(number: int, prefix: str = prefix) -> bool:
                return f"{prefix}{number}" in names

            for number, row in file.rows(is_wanted):
                yield row_document(f"{prefix}{number}", row, self._column)


class JsonlLoader(RowLoader):
    """Loads one document from each line of JSONL, compressed or not. Lines are counted from 1."""

    format = JsonlRows


class ParquetLoader(RowLoader):
    """Loads one document from each row of Parquet. Rows are counted from 0."""

    format = ParquetRows


def capitals() -> Filter:
    """Drop text without a lower-case letter, such as headings, numbers and horizontal rules."""
    return lambda text: text.upper() == text


def caption(characters: int = 6, words: int | None = None) -> Filter:
    """Drop text that is very short, or that begins with a short label and a colon ("Fig. 1: …").

    Args:
        characters: Drop text with fewer characters than this before its first colon, or in total if
            it has no colon.
        words: Also drop text with at most this many words before its first colon, or in total if it
            has no colon. (The authors' code: 5)
    """

    def is_caption(text: str) -> bool:
        before = text.partition(":")[0]
        return len(before) < characters or (words is not None and len(before.split()) <= words)

    return is_caption


def copyright() -> Filter:
    """Drop text with a ©, or with "copyright" as its first word."""

    def is_notice(text: str) -> bool:
        first = "".join(text.split(maxsplit=1)[:1])
        return "©" in text or first.lower().strip(string.punctuation) == "copyright"

    return is_notice


def no_sentence(*, units: Splitter) -> Filter:
    """Drop text, such as a heading, in which no sentence has a period and more than two words."""

    def is_sentence(text: str) -> bool:
        return "." in text and len(text.split()) > 2

    return lambda text: "." not in text or not any(map(is_sentence, units.sentences(text)))


def pattern(pattern: str, ignore_case: bool = False) -> Filter:
    """Drop text in which a regular expression finds a match.

    The filter raises `PatternTooSlow` if the search times out.
    """
    compiled = Pattern(pattern, "The filter 'pattern'", ignore_case=ignore_case)

    def is_found(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except PatternTooSlow as error:
            remedy = "Avoid repetitions within repetitions, like (a+)+ or (a|a)*"
            remedy += ", or leave out longer texts (the source's 'longest')."
            raise PatternTooSlow(error.message, remedy) from None

    return is_found


def table() -> Filter:
    """Drop text with a vertical bar (``|``)."""
    return lambda text: "|" in text


def url() -> Filter:
    r"""Drop text with a URL, or with anything that looks like one ("the end.Then").

    The paper's pattern is ``(http(s)?://)?(www\.)?[a-zA-Z0-9\-]+\.[a-zA-Z]{2,6}(\.[a-zA-Z]{2,6})?``
    ``(/[a-zA-Z0-9\-]*)*(\?[a-zA-Z0-9\-=&]*)?``. It takes quadratic time on a long run of letters.
    This filter therefore searches only for the pattern's mandatory part: a letter, digit or hyphen,
    then a dot, then two letters.
    """
    return lambda text: re.search(r"[a-zA-Z0-9\-]\.[a-zA-Z]{2}", text) is not None


def brackets() -> PostProcessor:
    """Remove text from each opening square bracket to the next closing one."""

    def without_brackets(text: str) -> str:
        # The paper's pattern, \[[^\]]*\], takes quadratic time on a run of opening brackets.
        pieces = []
        offset = 0
        while (begin := text.find("[", offset)) >= 0 and (end := text.find("]", begin)) >= 0:
            pieces.append(text[offset:begin])
            offset = end + 1
        return "".join([*pieces, text[offset:]])

    return without_brackets


def drop_first_line() -> PostProcessor:
    """Remove the first line of a text with several lines, such as a title in Wikipedia's dumps."""
    return lambda text: text.split("\n", 1)[-1]


def markdown() -> PostProcessor:
    """Remove emphasis markers, as in ``**bold**``, ``_italic_`` and ``~~struck~~``."""
    # The paper's pattern. Linear time: at most one failed search per line and kind of mark.
    return lambda text: re.sub(r"(\*\*|__|\*|_|~~)(.*?)\1", r"\2", text)


def single_newlines() -> PostProcessor:
    """Replace each single newline with a space."""
    return lambda text: re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def white_space() -> PostProcessor:
    """Replace each run of two or more white-space characters with one space."""
    return lambda text: re.sub(r"\s{2,}", " ", text)
