"""Shared by ConCodeEval's two tasks: options, prompts, groups and fingerprint.

The prompts are in ``prompts/concodeeval``: ``chat`` is our wording, ``paper`` the authors' (without
the chat markup of one model, which its server adds around each message). A path names your own
template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, nearest
from harness.prompts import named, read, read_file
from harness.prompts.template import Template
from harness.records import Message
from harness.scoring.validators import FORMATS, Format, Mode
from harness.tasks.concodeeval.data import SchemaRow, read_benchmark, refuse_broken
from harness.tasks.concodeeval.positions import Constraints
from harness.tasks.concodeeval.representations import render
from harness.tasks.concodeeval.schema import Representation, Wording

SOURCE = "Kammakomati et al. 2024, arXiv 2407.03387, table 1"
NAMES: Mapping[Representation | Format, str] = {
    "json": "JSON",
    "yaml": "YAML",
    "xml": "XML",
    "python": "Python",
    "natural_language": "natural language",
}
"""The representations and formats as prompts call them."""

FOLDER = "concodeeval"


class ConCodeEval:
    """The base of both tasks; the subclasses document the options."""

    part: ClassVar[Literal["generation", "validation"]]
    prompt_fields: ClassVar[frozenset[str]]
    """The fields that a prompt template may use."""
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
            raise ConfigError(
                "task.outputs must name at least one format, each once.",
                f"Write some of [{', '.join(FORMATS)}].",
            )
        self.representation, self.outputs, self.mode = representation, outputs, mode
        self._find_prompts(prompt, data)
        self.benchmark = read_benchmark(dataset, data)
        self._dataset = dataset
        self._wording: Wording = wording or ("paper" if prompt == "paper" else "corrected")
        refuse_broken(self.benchmark.schemas, mode)
        if self.part == "validation" and not any(self.benchmark.samples.values()):
            raise ConfigError(
                f"The data set {dataset!r} has schemas but no samples to judge.",
                "Use builtin, or make one: harness build concodeeval.",
            )

    def _find_prompts(self, prompt: str, data: DataFolder) -> None:
        """Find the templates that ``task.prompt`` names."""
        name, self._system = f"{FOLDER}/{self.part}_{prompt}", None
        if prompt not in ("chat", "paper"):
            self._user = read_file(data.file(prompt), f"task.prompt ({prompt})")
        elif name.endswith("generation_paper") and self.representation == "natural_language":
            self._user = read(f"{FOLDER}/natural_language")
        else:
            self._user = read(name)
            self._system = read(f"{name}.system") if f"{name}.system" in named(FOLDER) else None
        self._few_shot: Template | None = self._user if "shots" in self._user.names else None
        if prompt == "paper":
            self._few_shot = read(f"{name}_few_shot")
        for unknown in sorted(self._user.names - self.prompt_fields):
            raise ConfigError(
                f"{self._user.name}: there is no field {unknown!r}.",
                nearest(unknown, self.prompt_fields),
            )

    def schemas(self) -> Iterator[tuple[SchemaRow, str, Constraints]]:
        """Yield the schemas, each with its text in the prompt and the constraints in that text."""
        for row in self.benchmark.schemas:
            text = render(row.schema, self.representation, wording=self._wording)
            yield row, text, Constraints.of(row.schema, self.representation, self._wording)

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
        texts = [each.text for each in (self._system, self._user, self._few_shot) if each]
        return {
            "dataset": self._dataset,
            "dataset_sha256": self.benchmark.digest,
            "prompt_sha256": hashlib.sha256("\0".join(texts).encode()).hexdigest(),
        }

    def conversation(
        self, fields: Mapping[str, str], shots: Sequence[Mapping[str, str]]
    ) -> tuple[Message, ...]:
        """Build the conversation of an instance.

        Args:
            fields: ``schema`` and ``output``; for validation also ``sample``.
            shots: For each shot its fields, and its answer.
        """
        given = {**fields, "input": NAMES[self.representation], "shots": list(shots)}
        if shots:
            if self._few_shot is None:
                raise ConfigError(
                    "task.shots: the prompt has no place for shots.",
                    "Set task.shots.form to turns or task.prompt to paper, or write a template of "
                    "your own with 'shots' in it.",
                )
            return (Message("user", self._few_shot.render(given)),)
        user = Message("user", self._user.render(given))
        if self._system is None:
            return (user,)
        return (Message("system", self._system.render(given)), user)
