"""Rows that a run file holds itself: written to the cache, and copied to the run's folder."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.datasets.row_formats import to_json_types
from harness.datasets.rows import set_display_name
from harness.errors import ConfigError, StoreFailed, reraise_as
from harness.store.files import make_folder, replace_atomically, write_atomically
from harness.store.json_lines import encode
from harness.store.run_folder import ROWS, RunFolder

ROWS_FOLDER = "rows"  # of the cache folder
_REMEDY = "Free some space or fix the permissions, or set HARNESS_CACHE_DIR to another folder."


def write_rows(rows: Iterable[Mapping[str, Any]], where: str) -> str:
    """Write rows to a file of the cache that is named by their hash, and return its path.

    Args:
        rows: The rows of a run file.
        where: The run file's path, for messages, or "".

    Raises:
        ConfigError: If they are not a list of mappings.
        StoreFailed: If the cache folder cannot be written.
    """
    if isinstance(rows, str):
        raise ConfigError("task.rows is not a list of rows.", f"For a file: task.path: {rows}.")
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
        raise ConfigError("task.rows is not a list of rows.", "Begin each row with '- '.")
    lines = []
    for row_number, row in enumerate(rows, start=1):
        where_row = f"task.rows, item {row_number}: "
        try:
            with reraise_as(ConfigError, where_row):
                lines.append(encode(to_json_types(dict(row))) + b"\n")
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"{where_row}not a mapping that JSON can represent ({error})."
            remedy = "For a data frame: frame.to_dict('records') in pandas, to_dicts() in polars."
            raise ConfigError(problem, remedy) from None
    content = b"".join(lines)
    path = Settings().cache_dir.absolute() / ROWS_FOLDER / sha256(content).hexdigest() / ROWS
    try:
        if not path.exists():
            make_folder(path.parent)
            with replace_atomically(path, _REMEDY) as temporary:
                temporary.write_bytes(content)
    except OSError as error:
        raise StoreFailed(f"Cannot write {path}: {error.strerror}.", _REMEDY) from None
    set_display_name(path, f"{where}, task.rows" if where else "task.rows")
    return str(path)


def copy_inline_rows(run: RunFile, folder: RunFolder, settings: Settings) -> RunFile:
    """Copy the rows in a run file, if any, to the run's folder. Return the run file to record."""
    path = inline_rows_path(run, settings)
    if path is None:
        return run
    write_atomically(folder.path / ROWS, path.read_bytes())
    options = {key: value for key, value in run.task.options.items() if key != "path"}
    task = run.task.with_options({**options, "rows": ROWS})
    return run.model_copy(update={"task": task})


def inline_rows_path(run: RunFile, settings: Settings) -> Path | None:
    """Return the cached file of the rows in a run file, or None if the run file has no rows."""
    path = Path(str(run.task.options.get("path", "")))
    return path if path.is_relative_to(settings.cache_dir.absolute() / ROWS_FOLDER) else None
