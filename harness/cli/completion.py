"""Shell completion. It must respond at once, so slow imports are avoided."""

import contextlib
import os.path
from collections.abc import Iterable
from pathlib import Path


def run_names(incomplete: str) -> list[str]:
    """Return the names of runs that start with ``incomplete``."""
    configs = _runs_dir().glob("*/config.yaml")
    return _starting(incomplete, (config.parent.name for config in configs))


def run_files(incomplete: str) -> list[str]:
    """Return YAML files that match ``incomplete``: here, in configs/ or in the folder it names."""
    folders = {"", "configs/", incomplete[: incomplete.rfind("/") + 1]}
    files = (f"{place}{path.name}" for place in folders for path in Path(place).glob("*.y*ml"))
    return _starting(incomplete, files)


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    with contextlib.suppress(OSError):  # a folder that cannot be read has no names
        return sorted(name for name in names if name.startswith(incomplete))
    return []


def _runs_dir() -> Path:
    """Return the runs folder, without loading the settings (0.3 s) unless ``.env`` names it."""
    dotenv = Path(".env")
    if dotenv.is_file() and "HARNESS_RUNS_DIR" in dotenv.read_text(errors="replace").upper():
        from harness.config.settings import Settings

        return Settings().runs_dir
    variable = "$HARNESS_RUNS_DIR"
    folder = os.path.expandvars(variable)
    return Path("runs" if folder in ("", variable) else folder).expanduser()
