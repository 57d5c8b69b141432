"""Read the 150 recorded last-letter answers again: what each parser reads, and wrong labels.

    python scripts/last_letter_recorded.py [RESPONSES.jsonl]

Without a path, the file in the data folder (HARNESS_DATA_DIR). docs/last_letter.md has the figures.

The rows are from dottxt-ai/demos (say-what-you-mean): a Llama-3-8B's ``response``, what a second
model read in it (``predict``, the "AI parser"), and what .txt's own patterns read
(``strict_regex``, ``flexible_regex``). Here the patterns are run over ``response`` alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from harness.config.settings import Settings
from harness.datasets.folder import DataFolder, read_jsonl
from harness.errors import DataInvalid, UserError
from harness.plugins.benchmarks.last_letter.structure import last_letters, letters_in, parser
from harness.plugins.benchmarks.last_letter.task import RECORDED

READERS = ("strict", "flexible", "ai")


class Recorded(Struct, frozen=True):
    """A recorded answer, as in its file."""

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
    """A recorded answer, read again.

    label: the correct answer according to the data.
    true: the correct answer according to the question.
    read: parser to letters; empty if it reads none.
    """

    idx: int
    words: str
    label: str
    true: str
    read: Mapping[str, str]

    def right(self, reader: str) -> bool:
        """Whether a parser read the label."""
        return self.read[reader] == self.label.lower()

    def __str__(self) -> str:
        read = "  ".join(
            f"{reader} {self.read[reader] or '-'}{'+' if self.right(reader) else ''}"
            for reader in READERS
        )
        label = self.label if self.label == self.true else f"{self.label} (truly {self.true})"
        return f"  {self.idx:>3}  {self.words}: {label}  |  {read}"


@dataclass(frozen=True)
class Findings:
    """All rows; ``unlike`` are those whose recorded columns differ from what is read here."""

    rows: Sequence[Row]
    unlike: Sequence[int]

    @property
    def right(self) -> dict[str, int]:
        """Return how many answers are correct, by parser."""
        return {reader: sum(row.right(reader) for row in self.rows) for reader in READERS}

    @property
    def right_of_true(self) -> dict[str, int]:
        """The same, if the labels were the correct answers to the questions."""
        return {
            reader: sum(row.read[reader] == row.true for row in self.rows) for reader in READERS
        }

    @property
    def unread(self) -> dict[str, int]:
        """Return in how many answers each parser reads nothing."""
        return {reader: sum(not row.read[reader] for row in self.rows) for reader in READERS}

    @property
    def disagreements(self) -> list[Row]:
        """Rows whose parsers read different letters."""
        return [row for row in self.rows if len(set(row.read.values())) > 1]

    @property
    def verdicts_differ(self) -> list[Row]:
        """Rows that one parser finds correct and another wrong."""
        return [row for row in self.rows if len({row.right(reader) for reader in READERS}) > 1]

    @property
    def wrong_labels(self) -> list[Row]:
        """Rows whose label is not what the question asks for."""
        return [row for row in self.rows if row.label != row.true]

    def __str__(self) -> str:
        n = len(self.rows)
        lines = ["parser     right  reads nothing  right, were the labels"]
        lines += [
            f"{reader:<9}  {self.right[reader]:>3}/{n}  {self.unread[reader]:>13}  "
            f"{self.right_of_true[reader]:>3}/{n}"
            for reader in READERS
        ]
        equal = f"unlike: {self.unlike}" if self.unlike else "all equal to the recorded columns"
        lines += ["", f"Readings and verdicts, row by row: {equal}."]
        differ = self.verdicts_differ
        for title, rows in {
            "Wrong labels": self.wrong_labels,
            "Verdicts that differ between the parsers": differ,
            "Readings that differ, with the same verdict": [
                row for row in self.disagreements if row not in differ
            ],
        }.items():
            lines += ["", f"{title} ({len(rows)}):", *map(str, rows)]
        return "\n".join(lines)


def read_recorded(path: Path) -> list[Recorded]:
    """Read a file of recorded answers.

    Raises:
        DataInvalid: It holds something else.
        DataMissing: It cannot be read.
    """
    try:
        return [msgspec.convert(row, Recorded) for row in read_jsonl(path)]
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{path} holds no recorded answers: {error}.") from None


def findings(recorded: Iterable[Recorded]) -> Findings:
    """Read every response with the strict and the flexible parser; the AI's reading is given."""
    rows: list[Row] = []
    unlike: list[int] = []
    for one in recorded:
        read = {
            "strict": letters_in(parser("strict"), one.response) or "",
            "flexible": letters_in(parser("flexible"), one.response) or "",
            "ai": one.predict,
        }
        words = one.question.split('"')[1]
        row = Row(one.idx, words, one.answer, last_letters(tuple(words.split())), read)
        rows.append(row)
        stored = (one.strict_regex.lower(), one.flexible_regex.lower(), one.correct)
        if stored != (read["strict"], read["flexible"], row.right("ai")):
            unlike.append(one.idx)
    return Findings(rows, unlike)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("path", nargs="?", default=RECORDED)
    path = arguments.parse_args().path
    try:
        found = DataFolder(Settings().data_dir).file(path)
        print(findings(read_recorded(found)))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
