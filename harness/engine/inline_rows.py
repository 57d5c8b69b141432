"""Rows that a run file contains (``task.rows``), instead of the path of a file."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.datasets.fields import plain
from harness.datasets.rows import name_rows
from harness.errors import ConfigError, raised_as
from harness.store.files import make_folder, write_whole
from harness.store.json_lines import encode
from harness.store.run_folder import ROWS, RunFolder

KEPT = "rows"  # subfolder of the cache folder


def written(rows: Iterable[Mapping[str, Any]], where: str) -> str:
    """Write rows to the cache by hash, and return the file's path."""
    if isinstance(rows, str):
        raise ConfigError("task.rows is not a list of rows.", f"For a file: task.path: {rows}.")
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
        raise ConfigError("task.rows is not a list of rows.", "Begin each row with '- '.")
    lines = []
    for number, row in enumerate(rows, start=1):
        try:
            with raised_as(ConfigError, f"task.rows, item {number}: "):
                lines.append(encode(plain(dict(row))) + b"\n")
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"task.rows, item {number}: not a mapping that JSON can represent ({error})."
            remedy = "For a data frame: frame.to_dict('records') in pandas, to_dicts() in polars."
            raise ConfigError(problem, remedy) from None
    content = b"".join(lines)
    path = Settings().cache_dir.absolute() / KEPT / sha256(content).hexdigest() / ROWS
    if not path.exists():
        make_folder(path.parent)
        write_whole(path, content)
    name_rows(path, f"{where}, task.rows" if where else "task.rows")
    return str(path)


def with_own_rows(run: RunFile, folder: RunFolder, settings: Settings) -> RunFile:
    """Copy rows given in a run file, if any, to a run's folder. Return the run file to record."""
    path = own_rows(run, settings)
    if path is None:
        return run
    write_whole(folder.path / ROWS, path.read_bytes())
    task = run.task.with_options({**run.task.options, "path": ROWS})
    return run.model_copy(update={"task": task, "folder": Path()})


def own_rows(run: RunFile, settings: Settings) -> Path | None:
    """Return the path of the copy of rows that were given in a run file, or None."""
    path = Path(str(run.task.options.get("path", "")))
    return path if path.is_relative_to(settings.cache_dir.absolute() / KEPT) else None
