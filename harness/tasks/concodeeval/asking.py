"""How ConCodeEval's two tasks are asked: the prompts in ``prompts/concodeeval``, or one's own.

``chat`` is our wording, ``paper`` the authors' (without the tokens of one model's chat format: its
server puts them around each message). A path names a template of one's own.

>>> Asking("generation", "chat", "json", folder).messages({"schema": "{}", "output": "JSON"}, ())
... # doctest: +SKIP
(Message(role='user', content='Write one sample in JSON that …'),)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, nearest
from harness.prompts import Prompt, named, read, read_file
from harness.records import Message
from harness.scoring.validators import Format
from harness.tasks.concodeeval.representations import Representation

NAMES: Mapping[Representation | Format, str] = {
    "json": "JSON",
    "yaml": "YAML",
    "xml": "XML",
    "python": "Python",
    "natural_language": "natural language",
}
"""As prompts say them."""

FIELDS = {"generation": {"schema", "input", "output", "shots"}}
FIELDS["validation"] = {*FIELDS["generation"], "sample"}

FOLDER = "concodeeval"
Fields = Mapping[str, str]


class Asking:
    """The prompts of one of the two tasks for schemas in one representation.

    Raises: ConfigError for a prompt that is none.
    """

    def __init__(
        self,
        part: Literal["generation", "validation"],
        prompt: str,
        representation: Representation,
        data: DataFolder,
    ) -> None:
        self._input = NAMES[representation]
        self._system: Prompt | None = None
        self._few_shot: Prompt | None = None
        if prompt not in ("chat", "paper"):
            self._user = read_file(data.file(prompt), f"task.prompt ({prompt})")
        elif prompt == "paper" and part == "generation" and representation == "natural_language":
            self._user = read(f"{FOLDER}/natural_language")
        else:
            self._user = self._ours(f"{part}_{prompt}")
            system = f"{FOLDER}/{part}_{prompt}.system"
            self._system = read(system) if system in named(FOLDER) else None
        if prompt == "paper":
            self._few_shot = self._ours(f"{part}_paper_few_shot")
        elif "shots" in self._user.names:
            self._few_shot = self._user
        unknown = sorted(self._user.names - FIELDS[part])
        if unknown:
            raise ConfigError(
                f"{self._user.name}: there is no field {unknown[0]!r}.",
                nearest(unknown[0], FIELDS[part]),
            )

    @staticmethod
    def _ours(name: str) -> Prompt:
        return read(f"{FOLDER}/{name}")

    @property
    def sha256(self) -> str:
        """Of all templates."""
        texts = [each.text for each in (self._system, self._user, self._few_shot) if each]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    def messages(self, fields: Fields, shots: Sequence[Fields]) -> tuple[Message, ...]:
        """What is asked.

        fields: schema and output, for validation sample.
        shots: the same of each, and what is shown of its answer.

        Raises: ConfigError where there are shots, and the prompt has no place for them.
        """
        given = {**fields, "input": self._input, "shots": list(shots)}
        if shots:
            if self._few_shot is None:
                raise ConfigError(
                    "task.shots: the prompt has no place for shots.",
                    "Set task.shots.form to turns, task.prompt to paper, or write a template of "
                    "your own with 'shots' in it.",
                )
            return (Message("user", self._few_shot.render(given)),)
        user = Message("user", self._user.render(given))
        if self._system is None:
            return (user,)
        return (Message("system", self._system.render(given)), user)
