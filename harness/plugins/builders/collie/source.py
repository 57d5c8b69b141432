"""Sources of text: which documents of a corpus to load, and how to extract texts from them.

docs/collie_build.md describes the format.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import ConfigDict, Field, PrivateAttr

from harness.config.validation import validate
from harness.datasets.folder import DataFolder, expand_user, path_exists
from harness.errors import ConfigError, DataInvalid, DataMissing, suggest_name
from harness.plugin_interface import wrap_errors
from harness.plugin_loader import kind
from harness.plugins.benchmarks.collie.constraints.grammar import Level
from harness.plugins.builders.collie.structure import Bounds, FilePart, read_yaml
from harness.plugins.builders.corpora import format_of
from harness.plugins.builders.draws import hashed
from harness.ports import Loader
from harness.records import Document, JsonObject

PRESETS = {path.stem: path for path in sorted(Path(__file__).with_name("sources").glob("*.yaml"))}
# The presets of files that have no rows, by suffix. Files with rows have the preset of their
# format. If its loader reads Parquet, files of another format are read by the format's own loader.
PRESET_OF = {".md": "markdown", ".markdown": "markdown"}
GUTENBERG = "gutenberg-metadata.json"
MOST_DOCUMENTS = 256  # maximum documents of a batch
MOST_CHARACTERS = 1_000_000  # maximum characters of a batch, unless one document is longer

PlugIn = str | JsonObject  # a plug-in: its name, or a mapping with ``name`` and options
Count = Annotated[int, Field(ge=1)]


class Paragraphs(Bounds):
    """Bounds on the number of paragraphs in a passage. Longer sequences are cut at random."""

    low: Annotated[int, Field(alias="from", ge=2)] = 2
    high: Annotated[int, Field(alias="to", ge=2)] = 4


class Source(FilePart):
    """The settings of a corpus: how to load documents and cut, filter and clean their text."""

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

    def plain(self) -> JsonObject:
        """Return the source as plain data, with the keys of its YAML file."""
        return self.model_dump(mode="json", by_alias=True)

    def loader(self) -> tuple[str, JsonObject]:
        """Return the loader's name and options.

        A relative ``path`` is looked up in the folder of the source's file first.
        """
        [(name, options)] = parts([self.load])
        path = options.get("path")
        if self._folder is not None and isinstance(path, str):
            path_beside = self._folder / expand_user(path)
            if path_exists(path_beside):
                options["path"] = str(path_beside)
        return name, options


def find_source(text: str, changes: Mapping[str, Any] | None = None) -> Source:
    """Return the source that the option ``--source`` names, with ``changes`` to its fields.

    ``text`` is the path of a YAML file or of a corpus, a preset, or ``NAME=PATH``, where NAME is a
    preset or a new name for the source.
    """
    name, path = text.split("=", 1) if "=" in text else ("", text)
    if not path:
        remedy = "A variable in the command may not be set."
        raise ConfigError(f"--source {text!r} names nothing.", remedy)
    folder: Path | None = Path.cwd()
    if path.endswith((".yaml", ".yml")):
        raw = _read(Path(path))
        if name:
            raw["name"] = name
        folder = Path(path).absolute().parent
    elif path_exists(expand_user(path)):
        preset = name if name in PRESETS else _preset_of(Path(path))
        [(loader, _)] = parts([_read(PRESETS[preset])["load"]])
        if loader == "parquet":
            if Path(path).suffix == ".txt":
                loader = "text"
            loader = format_of(expand_user(path)) or loader
        stem = Path(path).resolve().name.partition(".")[0]
        name = name or re.sub(r"[^A-Za-z0-9_-]", "_", stem) or "own"
        raw = {"preset": preset, "name": name, "load": {"name": loader, "path": path}}
    elif not name and path in PRESETS:
        [(_, options)] = parts([_read(PRESETS[path])["load"]])
        if not options:
            remedy = f"Write --source {path}=PATH (harness docs collie_build)."
            raise ConfigError(f"--source {path}: a preset needs the path of the text.", remedy)
        raw = {"preset": path, "name": path}
        folder = None
    else:
        remedy = "Check the path." if name else suggest_name(path, PRESETS)
        raise DataMissing(f"--source {text}: there is no such file, folder or preset.", remedy)
    if "preset" in raw:
        preset = str(raw.pop("preset"))
        if preset not in PRESETS:
            raise ConfigError(f"There is no preset {preset!r}.", suggest_name(preset, PRESETS))
        raw = _read(PRESETS[preset]) | raw
    source = validate(Source, {**raw, **(changes or {})}, text)
    source._folder = folder
    parts((source.load, *source.filters, *source.passage_filters, *source.post_processors))
    return source


def parts(plug_in_settings: Sequence[PlugIn]) -> list[tuple[str, JsonObject]]:
    """Return each plug-in's name and options."""
    plug_ins = []
    for part in plug_in_settings:
        options = {"name": part} if isinstance(part, str) else dict(part)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f"{part!r:.80} names no plug-in.", "Write a name, or {name: …, …}.")
        plug_ins.append((name, options))
    return plug_ins


def _read(path: Path) -> JsonObject:
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise DataInvalid(f"{path}: must be a mapping.")
    return raw


def _preset_of(path: Path) -> str:
    if (path / GUTENBERG).is_file():
        return "gutenberg"
    preset = format_of(expand_user(str(path)))
    return preset or PRESET_OF.get(Path(path.name.removesuffix(".gz")).suffix, "text")


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents of a source, with their concatenated digests."""

    source: str
    documents: Sequence[Document]
    digests: bytes


class AllNames(Collection[str]):
    """The names of all documents of a loader, not kept in memory: ``in`` is always true."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return self._loader.names()

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Documents:
    """The documents drawn from a source.

    Args:
        source: The source.
        seed: The seed of the draw.
        data: The data folder.
    """

    def __init__(self, source: Source, seed: int, data: DataFolder) -> None:
        name, options = source.loader()
        self._name = source.name
        self._called = f"The loader {name!r} of {source.name}"
        self._digest = hashlib.sha256()
        with wrap_errors(self._called):
            self._loader: Loader = kind("loaders").build(name, options, data=data)
            self._names: Collection[str] = AllNames(self._loader)
            if source.documents is None:
                self.available = self.chosen = len(self._names)
                return
            self.available = 0

            def counted() -> Iterator[str]:
                for name in self._loader.names():
                    self.available += 1
                    yield name

            rank = hashed(f"{seed} documents")
            self._names = set(heapq.nsmallest(source.documents, counted(), rank))
            self.chosen = len(self._names)

    @property
    def sha256(self) -> str:
        """The SHA-256 (hex digits) of the digests of all documents that were read."""
        return self._digest.hexdigest()

    def batches(self) -> Iterator[DocumentBatch]:
        """Yield the chosen documents in batches, in the order of the source."""
        documents: list[Document] = []
        digests = bytearray()
        characters = 0
        with wrap_errors(self._called):
            for document in self._loader.read(self._names):
                characters += len(document.text)
                full = len(documents) >= MOST_DOCUMENTS or characters > MOST_CHARACTERS
                if documents and full:
                    yield DocumentBatch(self._name, documents, bytes(digests))
                    documents = []
                    digests = bytearray()
                    characters = len(document.text)
                # Facts that are not data fail here rather than in an instance.
                facts = msgspec.json.encode((document.name, document.about, document.problem))
                digest = hashlib.sha256(facts + document.text.encode()).digest()
                self._digest.update(digest)
                digests += digest
                documents.append(document)
            if documents:
                yield DocumentBatch(self._name, documents, bytes(digests))
