"""Shell completion. It must be instant, so nothing slow is imported."""

from __future__ import annotations

import os.path
from pathlib import Path


def run_names(incomplete: str) -> list[str]:
    """Return the run names that start with ``incomplete``; empty if the folder cannot be read."""
    try:
        names = sorted(config.parent.name for config in _runs_dir().glob("*/config.yaml"))
    except OSError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def run_files(incomplete: str) -> list[str]:
    """Return paths of YAML files that start with ``incomplete``, in ., configs/ and its folder."""
    folders = {"", "configs/", incomplete[: incomplete.rfind("/") + 1]}
    try:
        files = sorted(
            f"{folder}{path.name}" for folder in folders for path in Path(folder).glob("*.y*ml")
        )
    except OSError:
        return []
    return [name for name in files if name.startswith(incomplete)]


def judge_words(incomplete: str) -> list[str]:
    """Return the run names, and the word ``validate``, that start with ``incomplete``."""
    return [*run_names(incomplete), *(word for word in ["validate"] if word.startswith(incomplete))]


def _runs_dir() -> Path:
    """Return the runs folder, if possible without loading the settings (a third of a second)."""
    dotenv = Path(".env")
    if dotenv.is_file() and "HARNESS_RUNS_DIR" in dotenv.read_text(errors="replace").upper():
        from harness.config.settings import Settings

        return Settings().runs_dir
    variable = "$HARNESS_RUNS_DIR"
    named = os.path.expandvars(variable)
    return Path("runs" if named in ("", variable) else named).expanduser()
