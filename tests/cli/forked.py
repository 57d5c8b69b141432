"""Commands as forks of a process that has imported the large libraries.

To import them takes longer than most tests. A fork is a process of its own like any other: its
own environment, folder, output and end; ``python -m harness`` is what it runs.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path

READ_ON_IMPORT = ("PYTHONPATH", "NLTK_DATA")
"""Variables that count when a library is imported: a command with others cannot be a fork."""
_imported_with = [os.environ.get(name) for name in READ_ON_IMPORT]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *("harness.run", "harness.analysis.metrics", "harness.report.run_tables"),
        *("harness.scoring.constraints.punkt", "scipy.special", "scipy.stats"),
        *("typer", "openai", "anthropic"),
    ]
)


def begin() -> None:
    """Begin the process to fork from, with the environment as it is before a test changes it."""
    forkserver.ensure_running()


def can_run(env: Mapping[str, str]) -> bool:
    """Whether a fork is as good as a process begun from nothing."""
    return [env.get(name) for name in READ_ON_IMPORT] == _imported_with


def run(
    arguments: Sequence[str], env: Mapping[str, str], cwd: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run ``harness …`` to its end.

    Raises: subprocess.TimeoutExpired.
    """
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, "out"), Path(folder, "err")]
        process = _context.Process(target=_run, args=(list(arguments), dict(env), cwd, streams))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), seconds)
        said = [stream.read_text(errors="replace") for stream in streams]
        return subprocess.CompletedProcess(["harness", *arguments], process.exitcode, *said)


def _run(arguments: list[str], env: dict[str, str], cwd: Path, streams: list[Path]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, path in enumerate([Path(os.devnull), *streams]):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.path[0] = str(cwd)
    random.seed()
    sys.argv[1:] = arguments
    runpy.run_module("harness", run_name="__main__", alter_sys=True)
