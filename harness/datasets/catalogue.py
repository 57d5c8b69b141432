"""The data sets of `harness data fetch` (catalogue.yaml), and the files made from them.

Every hash was computed from the file itself. An original that was not available has none; the
hashes of its products are checked instead, or else its URL names a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from harness.datasets import conversion
from harness.errors import DataMissing, nearest


@dataclass(frozen=True, slots=True)
class Original:
    """A published file; if its ``size`` in bytes is None, at most ``limit`` bytes are fetched."""

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Product:
    """A file in the data folder; ``make`` yields its bytes, given the path of its ``original``.

    Without a ``sha256``, the commit in the original's URL says what it contains.
    """

    path: str
    original: str
    make: Callable[[Path], Iterator[bytes]]
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set that can be fetched by name; ``folder`` is relative to the data folder."""

    name: str
    about: str
    licence: str
    home: str
    folder: str
    originals: tuple[Original, ...]
    products: tuple[Product, ...]
    option: str = ""  # value of the option ``dataset`` that reads it, of the task of its name
    needs: tuple[str, ...] = ()  # data sets that the task needs besides


def _maker(_: type, written: str | Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the function of `conversion` that ``make`` names, with its options bound."""
    [(name, options)] = ({written: {}} if isinstance(written, str) else written).items()
    return partial(getattr(conversion, name), **options)


_FILE = Path(__file__).with_name("catalogue.yaml")
_DATA_SETS = msgspec.yaml.decode(_FILE.read_bytes(), type=list[DataSet], dec_hook=_maker)
CATALOGUE = {found.name: found for found in _DATA_SETS}


def published(task: str, dataset: object) -> list[DataSet]:
    """Return the data sets that a task needs with this value of its option ``dataset``."""
    found = CATALOGUE.get(task)
    if found is None or not found.option or found.option != dataset:
        return []
    return [found, *(CATALOGUE[name] for name in found.needs)]


def data_set(name: str) -> DataSet:
    """Return the data set with this name; raises DataMissing if the catalogue has none."""
    if name not in CATALOGUE:
        raise DataMissing(f"There is no data set {name!r} to fetch.", nearest(name, CATALOGUE))
    return CATALOGUE[name]
