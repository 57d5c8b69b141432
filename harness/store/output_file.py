"""The file that a user names for an export or a report: whole or not at all, and never a run's own.

>>> with whole(Path("q.parquet")) as temporary:  # doctest: +SKIP
...     temporary.write_bytes(b"...")
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness.errors import ConfigError, StoreFailed
from harness.store.replacing import replacing

OF_A_RUN = frozenset(
    {
        *("attempts.jsonl", "config.yaml", "manifest.json", "metrics.json"),
        *("scores.jsonl", "judgements.jsonl", "judges.json", ".lock"),
    }
)
"""What a run's folder holds: nothing may take the place of these."""

REMEDY = "Make room or mend the permissions, or name another file."


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file beside the wanted one, which takes its name only when the block has ended well.

    Raises: ConfigError where the wanted one is none that may be replaced; StoreFailed
        where it cannot be written.
    """
    check(path)
    with replacing(path, REMEDY) as temporary:
        yield temporary


def check(path: Path) -> None:
    """Raises: ConfigError where a file may not be written there; StoreFailed."""
    try:
        _check(path.resolve() if path.is_symlink() else path)
    except OSError as error:
        raise StoreFailed(f"Cannot write {path}: {error.strerror}.", REMEDY) from None


def _check(path: Path) -> None:
    if path.is_dir():
        raise ConfigError(f"-o {path} is a folder.", "Name the file, too.")
    if path.exists() and not path.is_file():
        raise ConfigError(f"-o {path} is there and is no file.", "Name another file.")
    if not path.parent.is_dir():
        raise ConfigError(f"-o {path}: there is no folder {path.parent}.", "Make it first.")
    if path.name in OF_A_RUN and (path.exists() or (path.parent / "config.yaml").exists()):
        raise ConfigError(
            f"-o {path} is a run's own file: it is not overwritten.", "Name another file."
        )
