"""The catalogue of published data sets for ``harness data fetch``.

A YAML file lists data sets (`DataSet`). The core has such a file, and plug-ins may declare one.
"""

import importlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile, ZipFile

import msgspec

from harness.declarations import declarations
from harness.errors import DataInvalid, DataMissing, suggest_name


class Original(msgspec.Struct, frozen=True):
    """A published file."""

    name: str
    url: str
    size: int | None = None  # in bytes
    sha256: str | None = None
    limit: int = 0  # maximum number of bytes if the size is unknown


class Product(msgspec.Struct, frozen=True):
    """A file in the data folder, made from one or two originals.

    ``make`` yields the file's bytes, given the paths of the ``originals``. If ``sha256`` is None,
    the original's URL names a commit, which determines the content.
    """

    path: str
    original: str
    make: Callable[..., Iterator[bytes]]
    sha256: str | None = None
    also: str = ""  # a second original

    @property
    def originals(self) -> list[str]:
        """The names of the originals from which the product is made."""
        return [self.original, *filter(None, [self.also])]


class DataSet(msgspec.Struct, frozen=True):
    """A data set that can be fetched by name, with its folder in the data folder."""

    name: str
    about: str
    licence: str
    home: str
    folder: str
    originals: tuple[Original, ...]
    products: tuple[Product, ...]
    option: str = ""  # value of ``dataset`` for which the task of this name reads it
    needs: tuple[str, ...] = ()  # other data sets that the task needs


def _call_maker(module: str, name: str, /, *originals: Path, **options: Any) -> Iterator[bytes]:
    """Import a module, and call its function ``name`` to make a product."""
    make: Callable[..., Iterator[bytes]] = getattr(importlib.import_module(module), name)
    return make(*originals, **options)


def _read_data_sets(file: Path, package: str) -> list[DataSet]:
    """Read a file of data sets, in which names of modules may be relative to a package."""

    def decode_maker(_type: type, raw: str | Mapping[str, Mapping[str, Any]]) -> Any:
        entry = {raw: {}} if isinstance(raw, str) else raw
        [(target, options)] = entry.items()
        module, _, name = target.rpartition(":")
        module = resolve_name(module, package) if module else __name__
        return partial(_call_maker, module, name, **options)

    try:
        return msgspec.yaml.decode(file.read_bytes(), type=list[DataSet], dec_hook=decode_maker)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise DataInvalid(f"{file}: not a list of data sets ({error}).") from None


@cache
def catalogue() -> dict[str, DataSet]:
    """Return all data sets by name.

    Every hash was computed from the file itself. An original that was not available has none; the
    hashes of its products are checked instead, or else its URL names a commit.
    """
    data_sets = _read_data_sets(Path(__file__).with_name("catalogue.yaml"), "harness.datasets")
    for declaration in declarations():
        if name := declaration.plugin.data_sets:
            data_sets += _read_data_sets(declaration.file_path(name), declaration.home)
    data_sets.sort(key=lambda data_set: data_set.name)
    return {data_set.name: data_set for data_set in data_sets}


def find_data_set(name: str) -> DataSet:
    """Return a data set of the catalogue, or raise DataMissing."""
    if name not in catalogue():
        raise DataMissing(
            f"There is no data set {name!r} to fetch.", suggest_name(name, catalogue())
        )
    return catalogue()[name]


# Converts published data files into the files that the harness reads.
# The names in an archive are only compared, never used as paths, and the sizes in it are not
# trusted.

T = TypeVar("T")

MAX_MEMBER_BYTES = 2**24  # of a file in an archive; `member` has its own default


def unchanged(original: Path) -> Iterator[bytes]:
    """Yield the content of a file unchanged, in one piece."""
    yield original.read_bytes()


def json_line(row: dict[str, Any]) -> bytes:
    """Return a row as a line of JSON."""
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def member(archive: Path, name: str, limit: int = 2**26) -> Iterator[bytes]:
    """Yield the content of a file in a zip archive, in one piece.

    Args:
        archive: The archive.
        name: The name of the file in it.
        limit: Maximum size of the file in bytes.

    Raises:
        DataInvalid: If the archive is damaged or has no such file, or if the file is too large.
    """
    for _, content in members(archive, name.__eq__, limit):
        yield content
        return
    raise DataInvalid(f"{archive}: it has no {name}.")


def members(
    archive: Path, accept: Callable[[str], object], limit: int = MAX_MEMBER_BYTES
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the content of files in a zip archive, in order of names.

    Args:
        archive: The archive.
        accept: Returns whether to yield the file of a name.
        limit: Maximum size of each of these files in bytes.

    Raises:
        DataInvalid: If the archive is damaged, or a file is too large.
    """
    name = "it"
    try:
        with ZipFile(archive) as zip_file:
            for name in sorted(filter(accept, zip_file.namelist())):
                with zip_file.open(name) as file:
                    content = file.read(limit + 1)
                if len(content) > limit:
                    raise DataInvalid(f"{archive}: {name} has more than {limit:,} bytes.")
                yield name, content
    # RuntimeError: a password is needed; its subclass NotImplementedError: unknown compression.
    except (BadZipFile, OSError, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise DataInvalid(f"{archive}: {name} cannot be unpacked ({error}).") from None


def decode_json_as(content: bytes, kind: type[T], problem: str) -> T:
    """Decode JSON to a value of a type.

    Args:
        content: The JSON text in UTF-8.
        kind: The type.
        problem: The message of the error, to which the cause is added.

    Raises:
        DataInvalid: If the content is not JSON, or of another type.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataInvalid(f"{problem} ({error}).") from None
