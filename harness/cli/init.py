"""`harness init`: the files of a first benchmark of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.console import say
from harness.errors import ConfigError
from harness.store.files import make_folder, write_whole

STARTER = Path(__file__).with_name("starter")


def init(folder: Annotated[Path, typer.Argument(metavar="FOLDER")] = Path()) -> None:
    """Write the files of a first benchmark: a run file, rows and a check.

    Args:
        folder: The folder to write to, created if it is missing; no file is replaced.
    """
    files = sorted(path for path in STARTER.iterdir() if path.name.startswith("my_"))
    if taken := [path.name for path in files if (folder / path.name).exists()]:
        problem = f"{folder / taken[0]} exists, and would be replaced."
        raise ConfigError(problem, "Remove it, or name another folder: harness init FOLDER.")
    make_folder(folder)
    for path in files:
        write_whole(folder / path.name, path.read_bytes())
    say(f"Written: {', '.join(str(folder / path.name) for path in files)}")
    enter = "" if folder == Path() else f"cd {folder} && "
    say(f"Next: {enter}harness run my_run.yaml     (offline; change the rows, then the model)")
    say("Then: harness report my_run     (a page with every answer)")
