"""Running the command: in this process where that makes no difference, else in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.cli import console

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "harness"]
SECONDS = 120

READ_ON_IMPORT = ("NLTK_DATA", "TERM", "PATH", "LANG", "PYTHONUTF8")
"""Variables that count when a module is imported: a command with others needs a new process."""
_IMPORTED_WITH = {name: os.environ.get(name) for name in READ_ON_IMPORT}


def harness(
    *arguments: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``harness …`` to its end.

    Args:
        arguments: Of the command.
        env: The whole environment; by default this process's.
        cwd: The working directory.
        options: Of `subprocess.run`; with any, the command gets a process of its own.
    """
    given = [str(argument) for argument in arguments]
    env = dict(os.environ if env is None else env)
    if not options and {name: env.get(name) for name in READ_ON_IMPORT} == _IMPORTED_WITH:
        return _in_process(given, env, cwd)
    return subprocess.run(
        [*COMMAND, *given],
        capture_output=True, text=True, check=False, timeout=SECONDS, cwd=cwd, env=env, **options,
    )  # fmt: skip


def _in_process(
    arguments: list[str], env: Mapping[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    from harness.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    code: object = 0
    with _process_state(env, cwd), Path(os.devnull).open() as nothing:
        kept = sys.argv, sys.stdin, sys.stdout, sys.stderr
        sys.argv, sys.stdin = ["harness", *arguments], nothing
        sys.stdout, sys.stderr = streams
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        except Exception:
            traceback.print_exc()
            code = 1
        finally:
            sys.argv, sys.stdin, sys.stdout, sys.stderr = kept
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    code = code if isinstance(code, int) else int(code is not None)
    return subprocess.CompletedProcess(["harness", *arguments], code, out, err)


@contextlib.contextmanager
def _process_state(env: Mapping[str, str], cwd: Path) -> Iterator[None]:
    """The environment, working directory and import path of a new process."""
    before, folder, path, modules = dict(os.environ), Path.cwd(), list(sys.path), set(sys.modules)
    others = [
        each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", *path)
    ]
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:0] = [str(cwd), *others]
    columns = int(env.get("COLUMNS", 0)) or None
    widths = console.output.width, console.messages._width
    console.output.width, console.messages._width = columns or console.PIPED[0], columns
    try:
        yield
    finally:
        console.output.width, console.messages._width = widths
        sys.path[:] = path
        for name in set(sys.modules) - modules:  # packages of this command's PYTHONPATH alone
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(tuple(others)):
                del sys.modules[name]
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


def begun(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Begin ``harness …`` and leave it running."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **options,
    )


def mistake(ended: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that ended with a user's mistake: short, with no traceback."""
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    lines = ended.stderr.strip().splitlines()
    begins = next(number for number, line in enumerate(lines) if line.startswith("harness: "))
    message = lines[begins:]
    assert len(message) <= 3, message
    return "\n".join(message)
