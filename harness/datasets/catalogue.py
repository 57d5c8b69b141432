"""The data sets that `harness data fetch` knows: where they are public, and what comes of them.

A data set is made of *originals*, downloaded, and *products*, the files that the harness reads,
each made of one original. A hash here was computed from the bytes it speaks of. Where the bytes
of an original were never seen here it is None, and the products' hashes are what holds.

>>> data_set("collie").products[0].path
'collie/instances.jsonl'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.datasets.archive import member
from harness.datasets.collie_dill import write_instances
from harness.datasets.collie_logs import write_generations
from harness.errors import DataMissing, nearest


@dataclass(frozen=True, slots=True)
class Original:
    """A public file.

    size: in bytes, None where it is not known.
    sha256: None where it is not known.
    limit: the most bytes that are downloaded.
    """

    name: str
    url: str
    size: int | None
    sha256: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class Product:
    """A file below the data folder.

    path: with slashes, relative to the data folder.
    make: gives its bytes from the original's file.
    sha256: None where it is not known; then that of the first fetch holds.
    """

    path: str
    original: str
    make: Callable[[Path], Iterator[bytes]]
    sha256: str | None


@dataclass(frozen=True, slots=True)
class DataSet:
    """What is fetched under one name.

    folder: what `harness data path` leads to, relative to the data folder.
    home: where people read about it.
    """

    name: str
    about: str
    licence: str
    home: str
    folder: str
    originals: tuple[Original, ...]
    products: tuple[Product, ...]


_COLLIE = (
    "https://raw.githubusercontent.com/princeton-nlp/Collie/"
    "4639e4a77f41db7f3a3b3de0ca0a7273d04213eb"
)
_NLTK_DATA = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages"
_ENGLISH = "tokenizers/punkt_tab/english"

COLLIE = DataSet(
    name="collie",
    about="COLLIE-v1, with answers of gpt-4 and vicuna-7b",
    licence="MIT; the texts have their sources' licences",
    home="https://github.com/princeton-nlp/Collie",
    folder="collie",
    originals=(
        Original(
            "all_data.dill",
            f"{_COLLIE}/data/all_data.dill",
            size=2_400_192,
            sha256="d8cf6e5447eea9457d7691c89a773ce5b512f3da1417f3480497997cab541009",
            limit=2_400_192,
        ),
        Original(
            "gpt-4-multi-round-generation-1trial.json",
            f"{_COLLIE}/logs/gpt-4-multi-round-generation-1trial.json",
            size=3_464_939,
            sha256=None,
            limit=3_464_939,
        ),
        Original(
            "vicuna-7b-1trial-no1-prompt.json",
            f"{_COLLIE}/logs/vicuna-7b-1trial-no1-prompt.json",
            size=924_125,
            sha256=None,
            limit=924_125,
        ),
    ),
    products=(
        Product(
            "collie/instances.jsonl",
            "all_data.dill",
            write_instances,
            "74630ce4bbf7070dd71168a369717e8c9ca67151f402b30fc43764cb0ee308a6",
        ),
        Product(
            "collie/generations/gpt-4.jsonl",
            "gpt-4-multi-round-generation-1trial.json",
            write_generations,
            "42fcb3fa5f94a6e1ed8178a7c23a4a753fe075d97ab882a6fc1551742e85a1b9",
        ),
        Product(
            "collie/generations/vicuna-7b.jsonl",
            "vicuna-7b-1trial-no1-prompt.json",
            write_generations,
            "4785294bd1cff32cb3d3e833b344aa3c0575cd6075fcd7cf2505b6558f00c65f",
        ),
    ),
)

# The archive is on a branch that moves and holds 19 languages: the English files are pinned.
PUNKT = DataSet(
    name="punkt",
    about="NLTK's English sentence parameters",
    licence="MIT",
    home="https://github.com/nltk/nltk_data",
    folder="nltk_data",
    originals=(
        Original(
            "punkt_tab.zip",
            f"{_NLTK_DATA}/packages/tokenizers/punkt_tab.zip",
            size=None,
            sha256=None,
            limit=16 * 2**20,
        ),
    ),
    products=tuple(
        Product(
            f"nltk_data/{_ENGLISH}/{name}",
            "punkt_tab.zip",
            partial(member, name=f"punkt_tab/english/{name}", limit=2**20),
            sha256,
        )
        for name, sha256 in {
            "abbrev_types.txt": "92a3e070f43d9b4c5534758ca40ad7343b04e7e29bfe0c2eb658a39445a4f779",
            "collocations.tab": "8e2da1225e4dd2cc9dba261ee231ccb134859e21b46006e7f472c5ee269af0cf",
            "ortho_context.tab": "4bbcca25ed3d3f06c02402abf8419b9f033b8adc06e7b482eca4e45f81a5dc4c",
            "sent_starters.txt": "f3f8535483e1dba487241b764945168123bca3209a9645e59acd1225dc76edac",
        }.items()
    ),
)

CATALOGUE = {found.name: found for found in (COLLIE, PUNKT)}


def data_set(name: str) -> DataSet:
    """The data set of a name.

    Raises: DataMissing, naming the nearest.
    """
    if name not in CATALOGUE:
        raise DataMissing(f"There is no data set {name!r} to fetch.", nearest(name, CATALOGUE))
    return CATALOGUE[name]
