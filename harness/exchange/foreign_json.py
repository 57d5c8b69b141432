"""JSON of another tool: bounded, NaN as Python writes it, errors that name the place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import DataInvalid, DataMissing, StoreFailed

MOST_BYTES = 1 << 27
"""Of one sample: a line, or a member of a log."""

MOST_WHOLE = 1 << 30
"""Of a file that can only be read as one."""

LARGEST = 1e100
"""Of a number that figures are made of, as in `harness.store.columns`."""


def parse(text: bytes, where: str) -> dict[str, Any]:
    """A mapping.

    where: file and line or member, for the message.

    Raises: DataInvalid.
    """
    try:
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:  # NaN and half characters, which Python writes and reads
            found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid(where, f"not JSON ({str(error)[:160]})") from None
    if not isinstance(found, dict):
        raise invalid(where, "not a mapping")
    return found


def json_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Number, from 1, offset and text of each line; empty ones are left out.

    Raises: DataInvalid where a line is too long; DataMissing; StoreFailed.
    """
    offset = number = 0
    with opened(path) as file:
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            if len(line) > MOST_BYTES:
                raise invalid(f"{path}, line {number}", f"longer than {MOST_BYTES:,} bytes")
            if line.strip():
                yield number, offset, line
            offset += len(line)


def opened(path: Path) -> Any:
    """The file, open for reading bytes.

    Raises: DataMissing; StoreFailed; DataInvalid where it is no file.
    """
    try:
        if path.exists() and not path.is_file():
            raise invalid(str(path), "not a file")
        return path.open("rb")
    except FileNotFoundError:
        raise DataMissing(f"There is no file {path}.", "Check its name.") from None
    except OSError as error:
        said = f"Cannot read {path}: {error.strerror}."
        raise StoreFailed(said, "Mend its permissions.") from None


def invalid(where: str, problem: str) -> DataInvalid:
    """The error that a file is not what it should be."""
    return DataInvalid(
        f"{where}: {problem}.",
        "Nothing was imported. Have the file written anew, or say with --format what it is.",
    )


def number(value: Any, where: str) -> float | None:
    """A finite number, or None where it is none, infinite or not a number.

    Raises: DataInvalid where it is too large to reckon with.
    """
    if not isinstance(value, int | float) or value != value or value in (math.inf, -math.inf):
        return None
    if not -LARGEST <= value <= LARGEST:
        raise invalid(where, "a number that is too large")
    return float(value)


def count(value: Any) -> int:
    """A count that columns of a run can hold, 0 where it is none."""
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, empty where it is none."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """A list, empty where it is none."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """A text, empty where it is none."""
    return value if isinstance(value, str) else ""


def seconds(moment: Any) -> float | None:
    """ISO 8601 as seconds since the epoch; None where it is none."""
    try:
        found = datetime.fromisoformat(moment).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return found if math.isfinite(found) else None
