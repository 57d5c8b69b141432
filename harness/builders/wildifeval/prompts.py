"""The stages' prompts: templates in ``prompts/wildifeval``, or the user's own.

Untrusted text is put between tags that it cannot close.

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
from harness.records import Request
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
"""The fields that each template may use."""

NEEDED = frozenset({"message", "constraint", "tasks", "names"})
"""The fields that it must use, if it may."""


class CurationPrompts:
    """The templates of a build."""

    def __init__(self, own: Mapping[PromptName, Path]) -> None:
        """Read the templates.

        Args:
            own: The user's template files, by the names of the prompts that they replace.

        Raises:
            ConfigError: A file is no template, or uses a field that does not exist.
        """
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
        """Render a prompt; ``message``, ``constraint`` and ``names`` are put between tags.

        Raises:
            ConfigError: The user's template fails.
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


DECOMPOSED = """Task: Write a text.
Context: none
Constraints:
1. The text should be what the message asks for.
2. The text should be complete."""


def simulated_reply(request: Request) -> str:
    """Return what a good model could reply, by the last line of our prompts, for free trial builds.

    The card of a data set from simulated models says so.
    """
    asked = request.messages[-1].content.rstrip()
    last = asked.rpartition("\n")[2]
    if "yes or no" in last:
        return "Yes"
    if "numbered list" in last:
        return "1. Letters\n2. Stories\n3. Advice"
    if "one kind" in last:
        return "Ensure Quality"
    if "one domain" in last:
        return "1"
    return DECOMPOSED
