"""The file that an export writes: whole or not at all, and never over what is no export.

>>> with whole(Path("q.parquet")) as temporary:  # doctest: +SKIP
...     temporary.write_bytes(b"...")
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness.errors import ConfigError, StoreFailed
from harness.store.replacing import replacing

OF_A_RUN = ("attempts.jsonl", "config.yaml", "manifest.json")
"""What a run's folder holds: no export may take the place of anything there."""


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file beside the wanted one, which takes its name only when the block has ended well.

    Raises: ConfigError where the wanted one is none that may be replaced; StoreFailed
        where it cannot be written.
    """
    remedy = "Make room or mend the permissions, or name another file."
    try:
        check(path)
    except OSError as error:
        raise StoreFailed(f"Cannot write {path}: {error.strerror}.", remedy) from None
    with replacing(path, remedy) as temporary:
        yield temporary


def check(path: Path) -> None:
    """Raises: ConfigError where a file may not be written there; OSError."""
    if path.is_dir():
        raise ConfigError(f"-o {path} is a folder.", "Name the file, too.")
    if path.exists() and not path.is_file():
        raise ConfigError(f"-o {path} is there and is no file.", "Name another file.")
    if not path.parent.is_dir():
        raise ConfigError(f"-o {path}: there is no folder {path.parent}.", "Make it first.")
    if path.exists() and any((path.parent / name).exists() for name in OF_A_RUN):
        raise ConfigError(
            f"-o {path} is there, in a run's own folder: it is not overwritten.",
            "Name a file outside of the folder of runs.",
        )
