"""Prompt texts: Jinja templates in the top-level folder ``prompts/``, or the user's own files.

Our prompts are in ``prompts/`` in the source tree, and inside the package once installed.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import ConfigError, DataMissing, nearest
from harness.prompts.template import LONGEST_TEMPLATE, Template

ENDING = ".jinja"
FOLDERS = (Path(__file__).with_name("texts"), Path(__file__).parents[2] / "prompts")
"""Where our prompts are in an installed package, and in the source tree."""


def named(folder: str = "") -> list[str]:
    """Return the names of our prompts, or of those in one folder."""
    found = {
        path.relative_to(root).with_suffix("").as_posix()
        for root in FOLDERS
        for path in root.glob(f"{folder or '**'}/*{ENDING}")
    }
    return sorted(found)


def read(name: str) -> Template:
    """Read one of our prompts by its name; the newline at the end of its file is dropped."""
    for root in FOLDERS:
        path = root / f"{name}{ENDING}"
        if path.is_file():
            return Template(_text(path), f"prompts/{name}{ENDING}")
    raise DataMissing(f"There is no prompt {name!r}.", nearest(name, named()))


def read_file(path: Path, option: str) -> Template:
    """Read a user's prompt; messages name it by the key of the run file that has its path."""
    return Template(_text(path), option)


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
