"""The optional dependencies of the package (extras)."""

import importlib
import sys
from pathlib import Path
from typing import Any

import harness
from harness.errors import ExtraMissing


def import_extra(module: str, extra: str) -> Any:
    """Import and return a module of an extra, or raise ExtraMissing if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != library:
            raise  # the library is installed but broken
        command = install_command(extra)
        raise ExtraMissing(f"This needs the package {library!r}: {command}") from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra into this environment."""
    tool = (Path(sys.prefix) / "uv-receipt.toml").is_file()  # made by `uv tool install`
    return f"{'uv tool' if tool else 'pip'} install '{harness.DISTRIBUTION}[{extra}]'"
