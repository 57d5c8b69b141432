"""The 150 recorded answers read anew: what each parser makes of them, and where they differ.

The rows are of dottxt-ai/demos (say-what-you-mean): a Llama-3-8B's ``response``, what a second
model has read in it (``predict``, the "AI parser"), and what .txt's own patterns read
(``strict_regex``, ``flexible_regex``). Here the patterns are run over ``response`` alone.

>>> findings(read_recorded(path)).right  # doctest: +SKIP
{'strict': 53, 'flexible': 91, 'ai': 86}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, Unparseable
from harness.tasks.last_letter.questions import last_letters
from harness.tasks.last_letter.structure import Parser, parser

Reader = Literal["strict", "flexible", "ai"]
READERS: tuple[Reader, ...] = ("strict", "flexible", "ai")


class Recorded(Struct, frozen=True):
    """A recorded answer, as its file has it."""

    idx: int
    question: str
    response: str
    answer: str
    predict: str
    correct: bool
    strict_regex: str
    flexible_regex: str


@dataclass(frozen=True, slots=True)
class Row:
    """A recorded answer, read anew.

    label: the right answer as the data has it; true: as the question has it.
    read: parser to letters; empty where it reads none.
    """

    idx: int
    question: str
    label: str
    true: str
    read: Mapping[Reader, str]

    def right(self, reader: Reader) -> bool:
        """Whether a parser has read what the label says."""
        return self.read[reader] == self.label.lower()

    @property
    def disagree(self) -> bool:
        """Whether the parsers read different letters."""
        return len(set(self.read.values())) > 1

    @property
    def wrongly_labelled(self) -> bool:
        """Whether the label is not what the question asks for."""
        return self.label != self.true


@dataclass(frozen=True)
class Findings:
    """All rows, and what is to be said of them.

    unlike: rows whose recorded columns are not what is read here.
    """

    rows: Sequence[Row]
    unlike: Sequence[int]

    @cached_property
    def right(self) -> dict[Reader, int]:
        """How many answers are right, by parser."""
        return {reader: sum(row.right(reader) for row in self.rows) for reader in READERS}

    @cached_property
    def right_of_true(self) -> dict[Reader, int]:
        """The same, were the labels what the questions ask for."""
        return {
            reader: sum(row.read[reader] == row.true for row in self.rows) for reader in READERS
        }

    @cached_property
    def unread(self) -> dict[Reader, int]:
        """In how many answers a parser reads nothing."""
        return {reader: sum(not row.read[reader] for row in self.rows) for reader in READERS}

    @property
    def disagreements(self) -> list[Row]:
        """Rows whose parsers read different letters."""
        return [row for row in self.rows if row.disagree]

    @property
    def verdicts_differ(self) -> list[Row]:
        """Of these, rows that one parser finds right and another wrong."""
        return [row for row in self.rows if len({row.right(reader) for reader in READERS}) > 1]

    @property
    def wrong_labels(self) -> list[Row]:
        """Rows whose label is not what the question asks for."""
        return [row for row in self.rows if row.wrongly_labelled]


def read_recorded(path: Path) -> list[Recorded]:
    """The rows of a file of recorded answers.

    Raises: DataInvalid; DataMissing.
    """
    try:
        return [msgspec.convert(row, Recorded) for row in read_jsonl(path)]
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{path} holds no recorded answers: {error}.") from None


def findings(recorded: Iterable[Recorded]) -> Findings:
    """Read every response with the strict and the flexible parser; the AI's reading is taken."""
    readers = {"strict": parser("strict"), "flexible": parser("flexible")}
    rows: list[Row] = []
    unlike: list[int] = []
    for one in recorded:
        read: dict[Reader, str] = {
            "strict": _read(readers["strict"], one.response),
            "flexible": _read(readers["flexible"], one.response),
            "ai": one.predict,
        }
        words = tuple(one.question.split('"')[1].split())
        row = Row(one.idx, one.question, one.answer, last_letters(words), read)
        rows.append(row)
        stored = (one.strict_regex.lower(), one.flexible_regex.lower(), one.correct)
        if stored != (read["strict"], read["flexible"], row.right("ai")):
            unlike.append(one.idx)
    return Findings(rows, unlike)


def report(found: Findings) -> str:
    """The findings as text."""
    n = len(found.rows)
    lines = ["parser     right  reads nothing  right, were the labels"]
    lines += [
        f"{reader:<9}  {found.right[reader]:>3}/{n}  {found.unread[reader]:>13}  "
        f"{found.right_of_true[reader]:>3}/{n}"
        for reader in READERS
    ]
    same = "all equal to the recorded columns" if not found.unlike else f"unlike: {found.unlike}"
    lines += ["", f"Readings and verdicts, row by row: {same}."]
    lines += ["", f"Wrong labels ({len(found.wrong_labels)}):"]
    lines += [_line(row) for row in found.wrong_labels]
    lines += ["", f"Verdicts that differ between the parsers ({len(found.verdicts_differ)}):"]
    lines += [_line(row) for row in found.verdicts_differ]
    only = [row for row in found.disagreements if row not in found.verdicts_differ]
    lines += ["", f"Readings that differ, with the same verdict ({len(only)}):"]
    return "\n".join([*lines, *(_line(row) for row in only)])


def _line(row: Row) -> str:
    read = "  ".join(
        f"{reader} {row.read[reader] or '-'}{'+' if row.right(reader) else ''}"
        for reader in READERS
    )
    words: Any = row.question.split('"')[1]
    label = row.label if row.label == row.true else f"{row.label} (truly {row.true})"
    return f"  {row.idx:>3}  {words}: {label}  |  {read}"


def _read(reader: Parser, text: str) -> str:
    try:
        return reader.read(text).letters
    except Unparseable:
        return ""
