"""The recorded GPT-3 answers to Natural Instructions, as one file that a replay reads.

The authors' repository has a file for each task, encoding and number of examples, named
``TASK@ENCODING@EXAMPLES_INSTANCES.json``; an archive of it is read without unpacking it.

>>> fields("_Definition_Prompt")
['Definition', 'Prompt']
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import msgspec

from harness.datasets.archive import member
from harness.errors import DataInvalid

MOST_FILES = 5_000
LARGEST = 2**24
"""Bytes of a file of answers, with its prompts."""

_NAME = re.compile(r"(?:.*/)?predictions/gpt3_outputs/([^@/]+)@(_[^@/]+)@(\d{1,4})_\d+\.json")


class _Answer(msgspec.Struct):
    index: int
    output: str


class _File(msgspec.Struct):
    predictions: list[_Answer]


def write_predictions(archive: Path, tasks: Collection[str]) -> Iterator[bytes]:
    """The lines of ``gpt3_predictions.jsonl``: the answers to some tasks."""
    for row in rows(archive, tasks):
        yield msgspec.json.encode(row) + b"\n"


def rows(archive: Path, tasks: Collection[str]) -> Iterator[dict[str, Any]]:
    """The answers to some tasks, file by file, sorted by name.

    Raises: DataInvalid where the archive cannot be read, or holds no such answers.
    """
    found = False
    for name in _names(archive):
        named = _NAME.fullmatch(name)
        if named is None or named[1] not in tasks:
            continue
        found = True
        task, encoding, examples = named.groups()
        try:
            text = b"".join(member(archive, name, LARGEST))
            answers = msgspec.json.decode(text, type=_File).predictions
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DataInvalid(f"{archive}: {name} is no file of answers ({error}).") from None
        for answer in answers:
            yield {
                "task": task,
                "encoding": encoding,
                "fields": fields(encoding),
                "n_examples": int(examples),
                "index": answer.index,
                "output": answer.output,
            }
    if not found:
        raise DataInvalid(f"{archive}: there are no answers of GPT-3 in it.")


def fields(encoding: str) -> list[str]:
    """The instruction's fields that an encoding's name lists."""
    return encoding.removeprefix("_").split("_")


def _names(archive: Path) -> list[str]:
    try:
        with ZipFile(archive) as opened:
            names = opened.namelist()
    except (BadZipFile, OSError) as error:
        raise DataInvalid(f"{archive}: no archive ({error}).") from None
    if len(names) > MOST_FILES:
        raise DataInvalid(f"{archive}: more than {MOST_FILES:,} files.")
    return sorted(names)
