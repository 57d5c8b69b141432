"""The catalogue of published data sets, catalogue.yaml, for ``harness data fetch``."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from harness.datasets import conversion
from harness.errors import DataMissing, nearest


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


def _maker(_: type, written: str | Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the function of `conversion` that the catalogue names, with its options."""
    [(name, options)] = ({written: {}} if isinstance(written, str) else written).items()
    return partial(getattr(conversion, name), **options)


# Every hash was computed from the file itself. An original that was not available has none; the
# hashes of its products are checked instead, or else its URL names a commit.
_FILE = Path(__file__).with_name("catalogue.yaml")
_DATA_SETS = msgspec.yaml.decode(_FILE.read_bytes(), type=list[DataSet], dec_hook=_maker)
CATALOGUE = {found.name: found for found in _DATA_SETS}


def published(task: str, dataset: object) -> list[DataSet]:
    """Return the data sets that a task reads for this value of its option ``dataset``."""
    found = CATALOGUE.get(task)
    if found is None or not found.option or found.option != dataset:
        return []
    return [found, *(CATALOGUE[name] for name in found.needs)]


def data_set(name: str) -> DataSet:
    """Look up a data set in the catalogue."""
    if name not in CATALOGUE:
        raise DataMissing(f"There is no data set {name!r} to fetch.", nearest(name, CATALOGUE))
    return CATALOGUE[name]
