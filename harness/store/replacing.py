"""A file that is written whole or not at all: a crash leaves the old content or the new.

>>> with replacing(Path("report.html")) as temporary:  # doctest: +SKIP
...     temporary.write_text("…")
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from harness.errors import StoreFailed

REMEDY = "Make room or mend the permissions, then try again."


@contextlib.contextmanager
def replacing(path: Path, remedy: str = REMEDY) -> Iterator[Path]:
    """A file beside the wanted one, which takes its place when the block has ended well.

    path: what it is to be; of a link, what the link names.
    remedy: what to do where it cannot be written.

    Raises: StoreFailed, for an error of the file system in the block, too.
    """
    temporary = path
    try:
        target = path.resolve() if path.is_symlink() else path
        temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}")
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # before the old content goes, not after
        temporary.replace(target)
    except BrokenPipeError:  # what is printed meanwhile, which no file is
        raise
    except OSError as error:
        raise StoreFailed(f"Cannot write {path}: {error.strerror or error}.", remedy) from None
    finally:
        if temporary != path:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
