"""The stages' prompts: templates in ``prompts/wildifeval``, or the user's own.

Untrusted text is put between tags that it cannot close.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.config.curation import PromptName
from harness.errors import ConfigError, DataInvalid
from harness.prompts import Template, read, read_file
from harness.records import Request
from harness.scoring.judges import tagged
from harness.tasks.wildifeval import CATEGORIES

FIELDS: Mapping[PromptName, set[str]] = {
    "toxic": {"message"},
    "constrained": {"message"},
    "decompose": {"message"},
    "category": {"constraint", "categories"},
    "propose_domains": {"tasks", "n"},
    "merge_domains": {"names", "n"},
    "domain": {"message", "domains"},
}
"""The fields that each template may use."""

NEEDED = {"message", "constraint", "tasks", "names"}
"""The fields that it must use, if it may."""


class CurationPrompts:
    """The templates of a build.

    Args:
        own: The user's template files, by the names of the prompts that they replace.
    """

    def __init__(self, own: Mapping[PromptName, Path]) -> None:
        self._prompts: dict[PromptName, Template] = {}
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
        """Render a prompt; ``message``, ``constraint`` and ``names`` are put between tags."""
        shown = {
            field: tagged(value, field) if field in NEEDED and isinstance(value, str) else value
            for field, value in fields.items()
        }
        if "tasks" in fields:
            shown["tasks"] = [tagged(task, "message") for task in fields["tasks"]]
        if name == "category":
            shown["categories"] = dict(CATEGORIES)
        try:
            return self._prompts[name].render(shown)
        except DataInvalid as error:
            raise ConfigError(error.message, error.remedy) from None


SIMULATED = {
    "yes or no": "Yes",
    "numbered list": "1. Letters\n2. Stories\n3. Advice",
    "one kind": "Ensure Quality",
    "one domain": "1",
    "": """Task: Write a text.
Context: none
Constraints:
1. The text should be what the message asks for.
2. The text should be complete.""",
}
"""What the last line of a prompt has -> what a good model could reply to it."""


def simulated_reply(request: Request) -> str:
    """Return a reply for free trial builds; the card says that the models were simulated."""
    last = request.messages[-1].content.rstrip().rpartition("\n")[2]
    return next(reply for sign, reply in SIMULATED.items() if sign in last)
