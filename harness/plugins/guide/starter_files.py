"""`harness init`: the files of a first benchmark of your own, or of a Slurm job."""

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import ConfigError
from harness.store.files import make_folder, write_whole
from harness.terminal.console import say

STARTER = Path(__file__).with_name("starter")
SLURM = "slurm"  # subfolder with batch files


def init(folder: Annotated[Path, typer.Argument(metavar="FOLDER")] = Path()) -> None:
    """Write the files of a first benchmark: a run file, rows and a check.

    'harness init slurm' writes batch files for Slurm to this folder instead.

    Args:
        folder: The folder to write to, created if it is missing; no file is replaced.
    """
    slurm = folder == Path(SLURM)
    source, folder = (STARTER / SLURM, Path()) if slurm else (STARTER, folder)
    files = sorted(path for path in source.iterdir() if path.name.startswith("my_"))
    if taken := [path.name for path in files if (folder / path.name).exists()]:
        problem = f"{folder / taken[0]} exists, and would be replaced."
        raise ConfigError(problem, "Remove it, or name another folder: harness init FOLDER.")
    make_folder(folder)
    for path in files:
        write_whole(folder / path.name, path.read_bytes())
    say(f"Written: {', '.join(str(folder / path.name) for path in files)}")
    if slurm:
        say("Next: set the run file and the resources in one of them, then: sbatch my_array.sbatch")
        return
    enter = "" if folder == Path() else f"cd {folder} && "
    say(f"Next: {enter}harness run my_run.yaml     (offline; change the rows, then the model)")
    say("Then: harness report my_run     (a page with every answer)")
