"""Zip archives for tests of conversions."""

import zipfile
from pathlib import Path


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    """Write an archive with the given files, by name."""
    file = folder / "x.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return file
