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
    """A published file. ``limit`` is the maximum number of bytes if the size is unknown."""

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None
    limit: int = 0


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


def _make(module: str, name: str, /, *originals: Path, **options: Any) -> Iterator[bytes]:
    """Call a function that makes a product. Its module is only imported now."""
    make: Callable[..., Iterator[bytes]] = getattr(importlib.import_module(module), name)
    return make(*originals, **options)


def _read(file: Path, package: str) -> list[DataSet]:
    """Read a file of data sets, in which names of modules may be relative to a package."""

    def maker(_type: type, written: str | Mapping[str, Mapping[str, Any]]) -> Any:
        [(place, options)] = ({written: {}} if isinstance(written, str) else written).items()
        module, _, name = place.rpartition(":")
        module = resolve_name(module, package) if module else __name__
        return partial(_make, module, name, **options)

    try:
        return msgspec.yaml.decode(file.read_bytes(), type=list[DataSet], dec_hook=maker)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise DataInvalid(f"{file}: not a list of data sets ({error}).") from None


@cache
def catalogue() -> dict[str, DataSet]:
    """Return all data sets by name.

    Every hash was computed from the file itself. An original that was not available has none; the
    hashes of its products are checked instead, or else its URL names a commit.
    """
    data_sets = _read(Path(__file__).with_name("catalogue.yaml"), "harness.datasets")
    for declaration in declarations():
        if name := declaration.plugin.data_sets:
            data_sets += _read(declaration.file_path(name), declaration.home)
    return {data_set.name: data_set for data_set in sorted(data_sets, key=lambda entry: entry.name)}


def data_set(name: str) -> DataSet:
    """Look up a data set in the catalogue."""
    if name not in catalogue():
        raise DataMissing(
            f"There is no data set {name!r} to fetch.", suggest_name(name, catalogue())
        )
    return catalogue()[name]


# Converts published data files into the files that the harness reads.
# The names in an archive are only compared, never used as paths, and the sizes in it are not
# trusted.

T = TypeVar("T")

LARGEST = 2**24  # maximum bytes of a file in an archive; `member` has its own default


def unchanged(original: Path) -> Iterator[bytes]:
    """Yield the content of a file unchanged, in one piece."""
    yield original.read_bytes()


def json_line(row: dict[str, Any]) -> bytes:
    """Return a row as a line of JSON."""
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def member(archive: Path, name: str, limit: int = 2**26) -> Iterator[bytes]:
    """Yield the content of the file ``name`` in a zip archive, in one piece."""
    for _, content in members(archive, name.__eq__, limit):
        yield content
        return
    raise DataInvalid(f"{archive}: it has no {name}.")


def members(
    archive: Path, suits: Callable[[str], object], limit: int = LARGEST
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file whose name ``suits`` accepts, in order of names."""
    name = "it"
    try:
        with ZipFile(archive) as opened:
            for name in sorted(filter(suits, opened.namelist())):
                with opened.open(name) as file:
                    content = file.read(limit + 1)
                if len(content) > limit:
                    raise DataInvalid(f"{archive}: {name} has more than {limit:,} bytes.")
                yield name, content
    # RuntimeError: a password is needed; its subclass NotImplementedError: unknown compression.
    except (BadZipFile, OSError, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise DataInvalid(f"{archive}: {name} cannot be unpacked ({error}).") from None


def decoded(content: bytes, form: type[T], problem: str) -> T:
    """Decode JSON, or raise DataInvalid with a description of the problem."""
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataInvalid(f"{problem} ({error}).") from None
