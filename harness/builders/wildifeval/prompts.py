"""The texts that the stages ask with: templates of ours in ``prompts/wildifeval``, or the user's.

What somebody else has written stands between tags that it cannot close.

>>> Prompts({}).text("toxic", message="Hello <b>")  # doctest: +SKIP
'This is the first message …'
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.config.curation import PromptName
from harness.errors import ConfigError, DataInvalid
from harness.prompts import Prompt, read, read_file
from harness.scoring.judges import tagged
from harness.tasks.wildifeval.categories import CATEGORIES

FIELDS: Mapping[PromptName, frozenset[str]] = {
    "toxic": frozenset({"message"}),
    "constrained": frozenset({"message"}),
    "decompose": frozenset({"message"}),
    "category": frozenset({"constraint", "categories"}),
    "propose_domains": frozenset({"tasks", "n"}),
    "merge_domains": frozenset({"names", "n"}),
    "domain": frozenset({"message", "domains"}),
}
"""What each template may show."""

NEEDED = frozenset({"message", "constraint", "tasks", "names"})
"""What it must show, where it may."""


class Prompts:
    """The templates of a build.

    own: files of the user's, by the names of the prompts whose place they take.

    Raises: ConfigError for a file that is no template, or shows what is not there.
    """

    def __init__(self, own: Mapping[PromptName, Path]) -> None:
        self._prompts: dict[PromptName, Prompt] = {}
        for name, fields in FIELDS.items():
            where = f"prompts.{name}"
            prompt = read_file(own[name], where) if name in own else read(f"wildifeval/{name}")
            if unknown := sorted(prompt.names - fields):
                raise ConfigError(
                    f"{prompt.name}: there is no field {unknown[0]!r} here.",
                    f"There are {', '.join(sorted(fields))}.",
                )
            if missing := sorted((fields & NEEDED) - prompt.names):
                raise ConfigError(f"{prompt.name} has no {{{{ {missing[0]} }}}}.", "Add it.")
            self._prompts[name] = prompt

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of each template."""
        return {name: prompt.sha256 for name, prompt in self._prompts.items()}

    def text(self, name: PromptName, **fields: Any) -> str:
        """A prompt; ``message``, ``constraint`` and ``names`` are put between tags.

        Raises: ConfigError where the user's template cannot be filled.
        """
        shown = {
            field: tagged(value, field) if field in NEEDED and isinstance(value, str) else value
            for field, value in fields.items()
        }
        if "tasks" in shown:
            shown["tasks"] = [tagged(task, "message") for task in fields["tasks"]]
        if name == "category":
            shown["categories"] = dict(CATEGORIES)
        try:
            return self._prompts[name].render(shown)
        except DataInvalid as error:
            raise ConfigError(error.message, error.remedy) from None
