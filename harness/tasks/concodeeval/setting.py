"""Shared by ConCodeEval's two tasks: options, data, prompts, groups and fingerprint.

The prompts are in ``prompts/concodeeval``: ``chat`` is our wording, ``paper`` the authors' (without
the chat markup of one model, which its server adds around each message). A path names your own
template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, nearest
from harness.prompts import Prompt, named, read, read_file
from harness.records import Message
from harness.scoring.validators import FORMATS, Format, Mode
from harness.tasks.concodeeval.data import Benchmark, SchemaRow, read_benchmark, refuse_broken
from harness.tasks.concodeeval.positions import Constraints
from harness.tasks.concodeeval.representations import Representation, Wording, render

SOURCE = "Kammakomati et al. 2024, arXiv 2407.03387, table 1"
NAMES: Mapping[Representation | Format, str] = {
    "json": "JSON",
    "yaml": "YAML",
    "xml": "XML",
    "python": "Python",
    "natural_language": "natural language",
}
"""The representations and formats as prompts call them."""

Part = Literal["generation", "validation"]
FIELDS: Mapping[Part, frozenset[str]] = {
    "generation": frozenset({"schema", "input", "output", "shots"}),
    "validation": frozenset({"schema", "input", "output", "shots", "sample"}),
}
"""The fields that a prompt template may use."""
FOLDER = "concodeeval"


class ShownSchema(NamedTuple):
    """A schema, its text in the prompt, and where its constraints stand in that text."""

    row: SchemaRow
    text: str
    constraints: Constraints


class ConCodeEval:
    """The base of both tasks; the subclasses document the options.

    Raises:
        ConfigError: The formats or the prompt are not valid.
        DataMissing: The data set does not exist.
        DataInvalid: The data set is malformed, or a schema is broken.
    """

    part: ClassVar[Part]
    on_truncated: Literal["fail", "grade"] = "grade"

    def __init__(
        self,
        dataset: str = "builtin",
        representation: Representation = "json",
        outputs: list[Format] = list(FORMATS),  # noqa: B006 (read only)
        prompt: str = "chat",
        wording: Wording | None = None,
        mode: Mode = "strict",
        *,
        data: DataFolder,
    ) -> None:
        if not outputs or len(set(outputs)) < len(outputs):
            given = ", ".join(outputs) or "none"
            raise ConfigError(
                f"task.outputs must name at least one format, each once (here: {given}).",
                f"Write some of [{', '.join(FORMATS)}].",
            )
        self.representation, self.outputs, self.mode = representation, outputs, mode
        self.prompts = SettingPrompts.find(self.part, prompt, representation, data)
        self.benchmark: Benchmark = read_benchmark(dataset, data)
        self._dataset = dataset
        self._wording: Wording = wording or ("paper" if prompt == "paper" else "corrected")
        refuse_broken(self.benchmark.schemas, mode)

    def schemas(self) -> Iterator[ShownSchema]:
        """Yield the schemas of the data set, in order."""
        for row in self.benchmark.schemas:
            yield ShownSchema(
                row,
                render(row.schema, self.representation, wording=self._wording),
                Constraints.of(row.schema, self.representation, self._wording),
            )

    def groups(self, row: SchemaRow, output: Format) -> dict[str, str]:
        """Return the groups of an instance, given by its schema and format."""
        return {
            "output": output,
            "representation": self.representation,
            "root": row.root,
            **({"range": row.range} if row.range else {}),
        }

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes of data and prompts; the other options are in the run file."""
        return {
            "dataset": self._dataset,
            "dataset_sha256": self.benchmark.digest,
            "prompt_sha256": self.prompts.sha256,
        }


class SettingPrompts(NamedTuple):
    """The templates of one of the two tasks for schemas in one representation.

    Attributes:
        few_shot: Used instead when there are shots; None if the prompt has no place for them.
        input: The representation as prompts call it.
    """

    system: Prompt | None
    user: Prompt
    few_shot: Prompt | None
    input: str

    @classmethod
    def find(
        cls, part: Part, prompt: str, representation: Representation, data: DataFolder
    ) -> SettingPrompts:
        """Find the templates that ``task.prompt`` names.

        Raises:
            ConfigError: There is no such prompt, or it uses an unknown field.
        """
        system: Prompt | None = None
        if prompt not in ("chat", "paper"):
            user = read_file(data.file(prompt), f"task.prompt ({prompt})")
        elif prompt == "paper" and part == "generation" and representation == "natural_language":
            user = read(f"{FOLDER}/natural_language")
        else:
            user = read(f"{FOLDER}/{part}_{prompt}")
            name = f"{FOLDER}/{part}_{prompt}.system"
            system = read(name) if name in named(FOLDER) else None
        few_shot = user if "shots" in user.names else None
        if prompt == "paper":
            few_shot = read(f"{FOLDER}/{part}_paper_few_shot")
        for unknown in sorted(user.names - FIELDS[part]):
            raise ConfigError(
                f"{user.name}: there is no field {unknown!r}.", nearest(unknown, FIELDS[part])
            )
        return cls(system, user, few_shot, NAMES[representation])

    @property
    def sha256(self) -> str:
        """A hash of all templates."""
        texts = [each.text for each in (self.system, self.user, self.few_shot) if each]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    def messages(
        self, fields: Mapping[str, str], shots: Sequence[Mapping[str, str]]
    ) -> tuple[Message, ...]:
        """Build the conversation of an instance.

        Args:
            fields: ``schema`` and ``output``; for validation also ``sample``.
            shots: For each shot its fields, and its answer.

        Raises:
            ConfigError: There are shots, but the prompt has no place for them.
        """
        given = {**fields, "input": self.input, "shots": list(shots)}
        if shots:
            if self.few_shot is None:
                raise ConfigError(
                    "task.shots: the prompt has no place for shots.",
                    "Set task.shots.form to turns or task.prompt to paper, or write a template of "
                    "your own with 'shots' in it.",
                )
            return (Message("user", self.few_shot.render(given)),)
        user = Message("user", self.user.render(given))
        if self.system is None:
            return (user,)
        return (Message("system", self.system.render(given)), user)
