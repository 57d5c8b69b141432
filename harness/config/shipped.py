"""Run files that are shipped with the harness, found by name."""

import re
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

from harness.errors import ConfigError, suggest_name

_PACKAGE = Path(__file__).parents[1]
ROOTS = (_PACKAGE, _PACKAGE.parent)
"""Folders that may contain the shipped files: the package or, in the source tree, its parent."""
DATA_FILES = (
    ".jsonl",
    ".ndjson",
    ".csv",
    ".tsv",
    ".xlsx",
    ".parquet",
    ".gz",
)  # suffixes that a run file cannot have


def names() -> list[str]:
    """Return the names of all run files that are shipped, sorted."""
    stems: set[str] = set()
    for root in ROOTS:
        stems.update(path.stem for path in (root / "configs").glob("*.yaml"))
    return sorted(stems)


def find(name: str) -> Path:
    """Return the path of a run file.

    Args:
        name: A path, or the name of a shipped run file.

    Returns:
        The path. It may be that of a missing file, which cannot be read.

    Raises:
        ConfigError: If there is no shipped file of this name, or ``name`` is that of a data file.
    """
    stem = Path(name).stem if name.startswith("configs/") else name
    path = Path(name)
    if path.suffix in DATA_FILES:
        remedy = (
            f"Evaluate it with harness eval {name} --model MODEL, or set task.path in a run file; "
            "'harness init' writes a run file (harness docs jsonl)."
        )
        raise ConfigError(f"{name} is a data file, not a run file.", remedy)
    shipped_paths = [root / "configs" / f"{stem}.yaml" for root in ROOTS]
    for candidate in (path, *shipped_paths):
        if candidate.is_file():
            return candidate
    if path.suffix in (".yaml", ".yml"):
        local_names = [file.name for file in path.parent.glob("*.y*ml")]
        similar = get_close_matches(path.stem, names(), n=1)
        if path.exists() or not similar or get_close_matches(path.name, local_names, n=1):
            return path  # reading it raises an error with the cause
        remedy = f"Did you mean the shipped {similar[0]!r}?"
        raise ConfigError(f"There is no run file {name!r}.", remedy)
    remedy = suggest_name(stem, names())
    if not get_close_matches(stem, names(), n=1):
        remedy = (
            "'harness configs' lists run files, 'harness tasks' lists tasks, and 'harness init' "
            "writes a run file."
        )
    raise ConfigError(f"There is no run file {name!r}.", remedy)


def summary(path: Path) -> str:
    """Return the first sentence of a file's opening comment, without its full stop, or ""."""
    lines = takewhile(lambda line: line.startswith("#"), path.read_text("utf-8").splitlines())
    comment = " ".join(line[1:].strip() for line in lines)
    return re.split(r"(?<!et al)\. ", comment)[0].rstrip(".")
