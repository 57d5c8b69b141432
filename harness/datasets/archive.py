"""One file out of a zip archive, by its name, up to a limit.

Names in an archive are only compared, never used as paths, and its claims of sizes are not
believed.

>>> b"".join(member(Path("punkt_tab.zip"), "punkt_tab/english/abbrev_types.txt"))[:3]  # doctest: +SKIP
b'mrs'
"""  # noqa: E501

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from harness.errors import DataInvalid

CHUNK = 2**16


def member(archive: Path, name: str, limit: int = 2**26) -> Iterator[bytes]:
    """The bytes of an archive's member, in pieces.

    limit: the most bytes it may have when unpacked.

    Raises: DataInvalid where the archive cannot be read, has no such member, or it is larger.
    """
    total = 0
    try:
        with ZipFile(archive) as opened, opened.open(name) as file:
            while piece := file.read(CHUNK):
                total += len(piece)
                if total > limit:
                    raise DataInvalid(f"{archive}: {name} has more than {limit:,} bytes.")
                yield piece
    except KeyError:
        raise DataInvalid(f"{archive}: there is no {name} in it.") from None
    # RuntimeError: a member under a password; NotImplementedError: an unknown compression.
    except (BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise DataInvalid(f"{archive}: {name} cannot be unpacked ({error}).") from None
