"""Sources of text: which documents of a corpus to load, and how to extract texts from them.

docs/collie_build.md describes the format.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import ConfigDict, Field, PrivateAttr

from harness.builders.collie.structure import Bounds, FilePart, read_yaml
from harness.builders.draws import hashed
from harness.config.validation import validated
from harness.datasets.folder import DataFolder, is_there, own_path
from harness.errors import ConfigError, DataInvalid, DataMissing, nearest
from harness.plugin_interface import calling
from harness.plugins import kind
from harness.ports import Loader
from harness.records import Document
from harness.scoring.constraints.grammar import Level

PRESETS = {path.stem: path for path in sorted(Path(__file__).with_name("sources").glob("*.yaml"))}
# By a path's suffix: the preset. If its loader reads Parquet, `LOADER_OF` may name another one.
PRESET_OF = {".md": "markdown", ".markdown": "markdown", ".jsonl": "jsonl", ".parquet": "parquet"}
GUTENBERG = "gutenberg-metadata.json"
LOADER_OF = {".jsonl": "jsonl", ".gz": "jsonl", ".txt": "text"}
MOST_DOCUMENTS = 256  # maximum documents of a batch
MOST_CHARACTERS = 1_000_000  # maximum characters of a batch, unless one document is longer

PlugIn = str | dict[str, Any]  # a plug-in: its name, or a mapping with ``name`` and options
Count = Annotated[int, Field(ge=1)]


class Paragraphs(Bounds):
    """The least and greatest number of paragraphs in a passage. Longer runs are cut at random."""

    low: Annotated[int, Field(alias="from", ge=2)] = 2
    high: Annotated[int, Field(alias="to", ge=2)] = 4


class Source(FilePart):
    """The settings of a corpus: how to load documents, and to cut, filter and clean their text."""

    model_config = ConfigDict(strict=False)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")]
    load: PlugIn
    levels: Annotated[tuple[Level, ...], Field(min_length=1)] = ("sentence", "paragraph", "passage")
    delimiter: Annotated[str, Field(min_length=1)] = "\n\n"
    filters: tuple[PlugIn, ...] = ()  # of paragraphs and sentences
    passage_filters: tuple[PlugIn, ...] = ()  # of paragraphs that no passage may contain
    post_processors: tuple[PlugIn, ...] = ()
    passages: Paragraphs | None = Paragraphs()  # None: keep every run whole, as in the paper
    documents: Count | None = 300  # maximum documents, drawn at random
    strings: Count | None = 100  # maximum texts per level and document, drawn at random
    longest: Count = 20_000  # maximum characters of a paragraph or sentence
    _folder: Path | None = PrivateAttr(None)  # base of a relative path; None for a preset's path

    def plain(self) -> dict[str, Any]:
        """Return the source as plain data, with the keys of its YAML file."""
        return self.model_dump(mode="json", by_alias=True)

    def loader(self) -> tuple[str, dict[str, Any]]:
        """Return the loader's name and options.

        A relative ``path`` is looked up in the folder of the source's file first.
        """
        [(name, options)] = parts([self.load])
        path = options.get("path")
        if self._folder is not None and isinstance(path, str):
            own = self._folder / own_path(path)
            options["path"] = str(own) if is_there(own) else path
        return name, options


def find_source(given: str, changes: Mapping[str, Any] | None = None) -> Source:
    """Return the source that the option ``--source`` names, with ``changes`` of its fields.

    It names the path of a YAML file, the path of a corpus, a preset, or ``NAME=PATH``, where NAME
    is a preset or a new name for the source.
    """
    name, path = given.split("=", 1) if "=" in given else ("", given)
    if not path:
        remedy = "A variable in the command may not be set."
        raise ConfigError(f"--source {given!r} names nothing.", remedy)
    folder: Path | None = Path.cwd()
    if path.endswith((".yaml", ".yml")):
        raw = _read(Path(path)) | ({"name": name} if name else {})
        folder = Path(path).absolute().parent
    elif is_there(own_path(path)):
        preset = name if name in PRESETS else _preset_of(Path(path))
        [(loader, _)] = parts([_read(PRESETS[preset])["load"]])
        if loader == "parquet":
            loader = LOADER_OF.get(Path(path).suffix, loader)
        stem = Path(path).resolve().name.partition(".")[0]
        name = name or re.sub(r"[^A-Za-z0-9_-]", "_", stem) or "own"
        raw = {"preset": preset, "name": name, "load": {"name": loader, "path": path}}
    elif not name and path in PRESETS:
        if not parts([_read(PRESETS[path])["load"]])[0][1]:
            remedy = f"Write --source {path}=PATH (docs/collie_build.md)."
            raise ConfigError(f"--source {path}: a preset needs the path of the text.", remedy)
        raw, folder = {"preset": path, "name": path}, None
    else:
        remedy = "Check the path." if name else nearest(path, PRESETS)
        raise DataMissing(f"--source {given}: there is no such file, folder or preset.", remedy)
    if "preset" in raw:
        preset = str(raw.pop("preset"))
        if preset not in PRESETS:
            raise ConfigError(f"There is no preset {preset!r}.", nearest(preset, PRESETS))
        raw = _read(PRESETS[preset]) | raw
    found = validated(Source, {**raw, **(changes or {})}, given)
    found._folder = folder
    parts((found.load, *found.filters, *found.passage_filters, *found.post_processors))
    return found


def parts(named: Sequence[PlugIn]) -> list[tuple[str, dict[str, Any]]]:
    """Return each plug-in's name and options."""
    found = []
    for part in named:
        options = {"name": part} if isinstance(part, str) else dict(part)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f"{part!r:.80} names no plug-in.", "Write a name, or {name: …, …}.")
        found.append((name, options))
    return found


def _read(path: Path) -> dict[str, Any]:
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise DataInvalid(f"{path}: must be a mapping.")
    return raw


def _preset_of(path: Path) -> str:
    if path.is_dir():
        return "gutenberg" if (path / GUTENBERG).is_file() else "text"
    return PRESET_OF.get(Path(path.name.removesuffix(".gz")).suffix, "text")


class Documents:
    """The documents drawn from a source. ``chosen`` of its ``available`` documents are drawn."""

    def __init__(self, source: Source, seed: int, data: DataFolder) -> None:
        name, options = source.loader()
        self._called = f"The loader {name!r} of {source.name}"
        self._digest = hashlib.sha256()
        self.available = 0

        def counted() -> Iterator[str]:
            for name in self._loader.names():
                self.available += 1
                yield name

        with calling(self._called):
            self._loader: Loader = kind("loaders").build(name, options, data=data)
            most, rank = source.documents, hashed(f"{seed} documents")
            self._names = set(counted() if most is None else heapq.nsmallest(most, counted(), rank))
        self.chosen = len(self._names)

    @property
    def sha256(self) -> str:
        """The SHA-256 (hex digits) of the names and texts of all documents read so far."""
        return self._digest.hexdigest()

    def batches(self) -> Iterator[list[Document]]:
        """Yield the chosen documents in batches of limited size, in the order of the source."""
        batch: list[Document] = []
        characters = 0
        with calling(self._called):
            for document in self._loader.read(self._names):
                self._digest.update(f"{document.name}\0{len(document.text)}\0".encode())
                self._digest.update(document.text.encode())
                msgspec.json.encode(document.about)  # fails here rather than in an instance
                characters += len(document.text)
                if batch and (len(batch) >= MOST_DOCUMENTS or characters > MOST_CHARACTERS):
                    yield batch
                    batch, characters = [], len(document.text)
                batch.append(document)
        if batch:
            yield batch
