"""Finds a prompt's template: one of ours by its name, or a file of the user's.

Ours are in ``prompts/`` at the top of the source, and in the package where it is installed.

>>> read("concodeeval/natural_language").render({"schema": "…", "output": "JSON"})  # doctest: +SKIP
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
"""Where an installed package has them, and where the source has them."""


@dataclass(frozen=True)
class Prompt:
    """A template and the text it is made of.

    name: how messages speak of it.

    Raises: ConfigError where the text is no template.
    """

    name: str
    text: str

    @cached_property
    def _template(self) -> Template:
        return Template(self.text, self.name)

    @property
    def names(self) -> frozenset[str]:
        """The fields that it needs or may use."""
        return self._template.names

    @property
    def sha256(self) -> str:
        """Of its text, for the manifest."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def render(self, fields: dict[str, Any]) -> str:
        """The text for some fields.

        Raises: DataInvalid for a field that is not there.
        """
        return self._template.render(fields)


def named(folder: str = "") -> list[str]:
    """The names of our prompts, or of those in one folder of them."""
    found = {
        path.relative_to(root).with_suffix("").as_posix()
        for root in FOLDERS
        for path in root.glob(f"{folder or '**'}/*{ENDING}")
    }
    return sorted(found)


def read(name: str) -> Prompt:
    """One of our prompts. The line's end at the end of its file is not part of it.

    Raises: DataMissing.
    """
    for root in FOLDERS:
        path = root / f"{name}{ENDING}"
        if path.is_file():
            return Prompt(f"prompts/{name}{ENDING}", _text(path))
    raise DataMissing(f"There is no prompt {name!r}.", nearest(name, named()))


def read_file(path: Path, option: str) -> Prompt:
    """A prompt of the user's.

    option: the key of the run file that names it, for messages.

    Raises: ConfigError where it cannot be read or is no template.
    """
    prompt = Prompt(option, _text(path))
    prompt.names  # noqa: B018 (compiled now, so that a slip is told before any work)
    return prompt


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(LONGEST_TEMPLATE + 2)
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is no UTF-8"
        raise ConfigError(
            f"The prompt {path} cannot be read: {problem}.", "Check the path and its permissions."
        ) from None
    return text.replace("\r\n", "\n")
