"""Prompt texts: Jinja templates in the top-level folder ``prompts/``, or the user's own files.

Our prompts are in ``prompts/`` in the source tree, and inside the package once installed.
`harness.prompts.template` says what a template may contain.

>>> read("concodeeval/generation_chat").render({"input": "JSON", ...})  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, DataMissing, nearest
from harness.prompts.template import LONGEST_TEMPLATE, Template

ENDING = ".jinja"
FOLDERS = (Path(__file__).with_name("texts"), Path(__file__).parents[2] / "prompts")
"""Where our prompts are in an installed package, and in the source tree."""


@dataclass(frozen=True)
class Prompt:
    """A template with its text; ``name`` is how messages call it."""

    name: str
    text: str

    @cached_property
    def _template(self) -> Template:
        return Template(self.text, self.name)

    @property
    def names(self) -> frozenset[str]:
        """The fields that the template uses."""
        return self._template.names

    @property
    def sha256(self) -> str:
        """The hash of its text, for the manifest."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def render(self, fields: dict[str, Any]) -> str:
        """Render the text for some fields.

        Raises:
            DataInvalid: A field is missing.
        """
        return self._template.render(fields)


def named(folder: str = "") -> list[str]:
    """Return the names of our prompts, or of those in one folder."""
    found = {
        path.relative_to(root).with_suffix("").as_posix()
        for root in FOLDERS
        for path in root.glob(f"{folder or '**'}/*{ENDING}")
    }
    return sorted(found)


def read(name: str) -> Prompt:
    """Read one of our prompts by its name; the newline at the end of its file is dropped.

    Raises:
        DataMissing: There is no prompt with this name.
    """
    for root in FOLDERS:
        path = root / f"{name}{ENDING}"
        if path.is_file():
            return Prompt(f"prompts/{name}{ENDING}", _text(path))
    raise DataMissing(f"There is no prompt {name!r}.", nearest(name, named()))


def read_file(path: Path, option: str) -> Prompt:
    """Read a user's prompt.

    Args:
        path: The template file.
        option: The key of the run file that names it, for messages.

    Raises:
        ConfigError: It cannot be read, or is not a template.
    """
    prompt = Prompt(option, _text(path))
    prompt.names  # noqa: B018 (compiled now, so that a mistake is reported before any work)
    return prompt


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(LONGEST_TEMPLATE + 2)
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(
            f"The prompt {path} cannot be read: {problem}.", "Check the path and its permissions."
        ) from None
    return text.replace("\r\n", "\n")
