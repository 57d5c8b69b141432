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
from harness.datasets.gpt3_predictions import write_predictions
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


def as_it_is(original: Path) -> Iterator[bytes]:
    """An original's own bytes."""
    with original.open("rb") as file:
        yield from iter(lambda: file.read(2**16), b"")


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

_REFRAMING = (
    "https://raw.githubusercontent.com/allenai/reframing/8f361e4635c64cc173043d32c53fd6902840ad4a"
)
_ANSWERS = "074949352f02599609accc6449c0f8e88ef242fc"
_TASKS = {
    "subtask003_mctaco_question_generation_event_duration": (
        116_536,
        "c35d424de6667c1924186e6ffaabd4fdacc1b82a661111d3975d6200854dcad1",
    ),
    "subtask005_mctaco_wrong_answer_generation_event_duration": (
        212_523,
        "897255ea948e491cb1e73fbd05712e3facd69b4898b37117c587d300c17ff8e5",
    ),
    "subtask008_mctaco_wrong_answer_generation_transient_stationary": (
        70_780,
        "6c806d169d64e7144f6da372e4630994b8b0a0f5fa42390fd290ece28ffc7e50",
    ),
    "subtask022_cosmosqa_passage_inappropriate_binary": (
        229_155,
        "c4cbd73db95fd55b294afce0dbed2227e6c3cb5a11b8e8458ba6e4b489a0e051",
    ),
    "subtask034_winogrande_question_modification_object": (
        2_343_588,
        "b46edab45342e8b2e16fdd2ecdcc5cc91cb2a4468682a8f33ad5cadd1a5d6b08",
    ),
    "subtask039_qasc_find_overlapping_words": (
        1_789_856,
        "fbd327f6b0a68733c87f6f4d9440bad7d49f813957977ac4f3633574b13c1d43",
    ),
    "subtask044_essential_terms_identifying_essential_words": (
        777_763,
        "2f1d035b3b51d056ae4e9bbb2fecd9aab1b3ebb98574c4bb9ab7ec185e696e0a",
    ),
}
"""Task -> bytes and sha256 of its file."""

# The seven tasks whose recorded answers are scored here; all 61 are behind a form on the home page.
NATURAL_INSTRUCTIONS = DataSet(
    name="natural_instructions",
    about="Natural Instructions v1: seven tasks, with the recorded answers of GPT-3",
    licence="Apache-2.0",
    home="https://instructions.apps.allenai.org",
    folder="natural_instructions",
    originals=(
        *(
            Original(f"{task}.json", f"{_REFRAMING}/Dataset_Jsons/{task}.json", size, sha256, size)
            for task, (size, sha256) in _TASKS.items()
        ),
        Original(
            f"{_ANSWERS}.zip",
            f"https://github.com/allenai/natural-instructions-v1/archive/{_ANSWERS}.zip",
            size=None,
            sha256=None,
            limit=2**28,
        ),
    ),
    products=(
        *(
            Product(f"natural_instructions/tasks/{task}.json", f"{task}.json", as_it_is, sha256)
            for task, (_, sha256) in _TASKS.items()
        ),
        Product(
            "natural_instructions/gpt3_predictions.jsonl",
            f"{_ANSWERS}.zip",
            partial(write_predictions, tasks=_TASKS),
            "947e2d909ab15b4f72b1618dcf1feba7b0a24db611296ed41ce7619c9d98349b",
        ),
    ),
)

CATALOGUE = {found.name: found for found in (COLLIE, PUNKT, NATURAL_INSTRUCTIONS)}


def data_set(name: str) -> DataSet:
    """The data set of a name.

    Raises: DataMissing, naming the nearest.
    """
    if name not in CATALOGUE:
        raise DataMissing(f"There is no data set {name!r} to fetch.", nearest(name, CATALOGUE))
    return CATALOGUE[name]
