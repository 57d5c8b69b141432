"""A source of text: where documents come from, and how natural text is made of them.

    name: manuals
    load: {name: text, path: corpus/manuals, files: "**/*.txt"}
    delimiter: "\\n\\n"                     # between paragraphs
    filters: [url, capitals, {name: caption, words: 5}, no_sentence]
    post_processors: [markdown, brackets, single_newlines, white_space]
    passages: {from: 2, to: 4}            # paragraphs; longer rows are cut; null: never

``preset: wiki`` (or another of ``sources/``) gives the keys that a file does not name. A ``path``
is relative to the file; on the command line, to the working directory. What is not there is looked
for in the data folder, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from harness.datasets.folder import is_there, own_path
from harness.errors import ConfigError, DataInvalid, DataMissing, nearest
from harness.scoring.constraints.form import refuse_excess
from harness.scoring.constraints.grammar import Level

PRESETS = Path(__file__).with_name("sources")

PRESET_OF = {".md": "markdown", ".markdown": "markdown", ".jsonl": "jsonl", ".parquet": "parquet"}
"""Of a path on the command line, by its ending; any other is text."""
GUTENBERG = "gutenberg-metadata.json"
LOADER_OF = {".jsonl": "jsonl", ".gz": "jsonl", ".parquet": "parquet"}
"""How a path is loaded that a preset is to treat."""

TEXT: tuple[Level, ...] = ("sentence", "paragraph", "passage")

Part = str | dict[str, Any]
"""A plug-in: its name, or a mapping with ``name`` and options."""


class Paragraphs(BaseModel):
    """How many paragraphs a passage has: a longer row of them is cut into pieces, by chance."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    low: Annotated[int, Field(alias="from", ge=2)] = 2
    high: Annotated[int, Field(alias="to", ge=2)] = 4


class Source(BaseModel):
    """How a corpus becomes texts.

    load: the loader, by name, and its options.
    levels: of the texts that it has.
    delimiter: what parts paragraphs.
    filters: leave out paragraphs and sentences; the first one that holds is counted.
    passage_filters: paragraphs of which no passage is made.
    post_processors: clean a paragraph, in this order.
    passages: into what rows of surviving paragraphs that are longer are cut; None for never, as
        in the paper.
    documents: most documents, drawn by chance; None for all.
    strings: most texts of a level from one document, drawn by chance; None for all.
    longest: characters of a paragraph; longer ones are left out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")]
    load: Part
    levels: Annotated[tuple[Level, ...], Field(min_length=1)] = TEXT
    delimiter: Annotated[str, Field(min_length=1)] = "\n\n"
    filters: tuple[Part, ...] = ()
    passage_filters: tuple[Part, ...] = ()
    post_processors: tuple[Part, ...] = ()
    passages: Paragraphs | None = Paragraphs()
    documents: Annotated[int, Field(ge=1)] | None = 300
    strings: Annotated[int, Field(ge=1)] | None = 100
    longest: Annotated[int, Field(ge=1)] = 20_000
    _folder: Path | None = PrivateAttr(None)
    """What the loader's path is relative to; None where a preset alone says it."""

    @field_validator("passages")
    @classmethod
    def _in_order(cls, passages: Paragraphs | None) -> Paragraphs | None:
        if passages and passages.low > passages.high:
            raise ValueError("passages go from a number to a greater one")
        return passages

    def loader(self) -> tuple[str, dict[str, Any]]:
        """The loader's name and options; a path that is there for the user is absolute."""
        [(name, options)] = parts([self.load])
        path = options.get("path")
        if self._folder is not None and isinstance(path, str):
            own = self._folder / own_path(path)
            options["path"] = str(own) if is_there(own) else path
        return name, options


def find_source(given: str, changes: Mapping[str, Any] | None = None) -> Source:
    """A source as the command line names it.

    given: a file of YAML; a folder or file of text; ``NAME=PATH``, where NAME is a preset or what
        the source is to be called; or a preset alone.
    changes: keys that stand above those of the file.

    Raises: ConfigError, DataMissing, DataInvalid.
    """
    if not given.rpartition("=")[2]:
        raise ConfigError(
            f"--source {given!r} names nothing.", "A variable in the command may not be set."
        )
    name, equals, path = given.partition("=")
    if not equals:
        name, path = "", given
    if path.endswith((".yaml", ".yml")):
        raw = _read(Path(path))
        if name:
            raw["name"] = name
        return _source({**raw, **(changes or {})}, path, Path(path).absolute().parent)
    there = is_there(own_path(path))
    if not equals and path in presets() and not there:
        return _source({"preset": path, "name": path, **(changes or {})}, given)
    if not there:
        raise DataMissing(
            f"--source {given}: there is no such file, folder or preset.",
            nearest(path, presets()) if not equals else "Check the path.",
        )
    preset = name if name in presets() else _preset_of(Path(path))
    raw = {"preset": preset, "name": name or _named_after(Path(path)), **(changes or {})}
    loader = _named(_preset(preset)["load"])["name"]
    if loader == "huggingface":  # what the preset would fetch is here
        loader = LOADER_OF.get(Path(path).suffix, "text")
    return _source({**raw, "load": {"name": loader, "path": path}}, given, Path.cwd())


def presets() -> list[str]:
    """The names of the presets."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def parts(named: Sequence[Part]) -> list[tuple[str, dict[str, Any]]]:
    """Plug-ins as names and options.

    Raises: ConfigError where one has no name.
    """
    found = []
    for part in named:
        options = _named(part)
        found.append((str(options.pop("name")), options))
    return found


def _named(part: Part) -> dict[str, Any]:
    options = {"name": part} if isinstance(part, str) else dict(part)
    if not isinstance(options.get("name"), str):
        raise ConfigError(f"{part!r:.80} names no plug-in.", "Write a name, or {name: …, …}.")
    return options


def _source(raw: dict[str, Any], where: str, folder: Path | None = None) -> Source:
    preset = raw.pop("preset", None)
    if preset is not None:
        raw = {**_preset(str(preset)), **raw}
    try:
        found = Source.model_validate(raw)
        found._folder = folder
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        valid = [*Source.model_fields, "preset"]
        remedy = nearest(key, valid) if first["type"] == "extra_forbidden" else ""
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{where}, {key}: {message[:1].lower()}{message[1:]}.", remedy) from None
    parts((found.load, *found.filters, *found.passage_filters, *found.post_processors))
    return found


def _preset(name: str) -> dict[str, Any]:
    if name not in presets():
        raise ConfigError(f"There is no preset {name!r}.", nearest(name, presets()))
    return _read(PRESETS / f"{name}.yaml")


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DataInvalid(f"{path}: not YAML ({error}).") from None
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    refuse_excess(raw, str(path))
    if not isinstance(raw, dict):
        raise DataInvalid(f"{path}: must be a mapping.")
    return cast("dict[str, Any]", raw)


def _preset_of(path: Path) -> str:
    if path.is_dir():
        return "gutenberg" if (path / GUTENBERG).is_file() else "text"
    ending = path.name.removesuffix(".gz")
    return PRESET_OF.get(Path(ending).suffix, "text")


def _named_after(path: Path) -> str:
    stem = path.resolve().name.partition(".")[0]
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in stem) or "own"
