"""Running the command: in this process where that makes no difference, else in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from harness.terminal import console
from tests.rows import QUICKSTART

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "harness"]
SECONDS = 120
QUICK = ("run", QUICKSTART, "--limit", "26", "--name")
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For a command that may write small files only: Python would write truncated bytecode."""

READ_ON_IMPORT = ("NLTK_DATA", "TERM", "PATH", "LANG", "PYTHONUTF8")
"""Variables that count when a module is imported: a command with others needs a new process."""
_IMPORTED_WITH = {name: os.environ.get(name) for name in READ_ON_IMPORT}


def on(runs: Path, **more: str) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs)} | more


def harness(
    *arguments: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path = ROOT,
    input: str | TextIO = "",
    apart: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run ``harness …`` to its end.

    Args:
        arguments: Of the command.
        env: The whole environment; by default this process's.
        cwd: The working directory.
        input: What it reads from stdin, or, without options, a terminal as its stdin.
        apart: Whether it runs in a separate process, which has loaded no user's code and has
            given no warning yet. It is forked, which takes a tenth of the time of a new one.
        options: Of `subprocess.run`; with any, the command gets a new process.
    """
    if apart:
        assert not input
        assert not options
        return begun(*arguments, env=env, cwd=cwd).ended()
    given = [str(argument) for argument in arguments]
    env = dict(os.environ if env is None else env)
    if "preexec_fn" in options:
        env |= NO_BYTECODE
    if not options and {name: env.get(name) for name in READ_ON_IMPORT} == _IMPORTED_WITH:
        return _in_process(given, env, cwd, input)
    assert isinstance(input, str)
    return subprocess.run(
        [*COMMAND, *given], input=input, capture_output=True, text=True, check=False,
        timeout=SECONDS, cwd=cwd, env=env, **options,
    )  # fmt: skip


def _in_process(
    arguments: list[str], env: Mapping[str, str], cwd: Path, given: str | TextIO
) -> subprocess.CompletedProcess[str]:
    from harness.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    code: object = 0
    with _process_state(env, cwd):
        kept = sys.argv, sys.stdin, sys.stdout, sys.stderr
        sys.argv = ["harness", *arguments]
        sys.stdin = io.StringIO(given) if isinstance(given, str) else given
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


_MODULES: dict[tuple[str, ...], dict[str, ModuleType]] = {}
"""By a command's own PYTHONPATH: its packages, which caches may refer to."""


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
    own = _MODULES.setdefault(tuple(others), {})
    sys.modules.update(own)
    columns = int(env.get("COLUMNS", 0)) or None
    widths = console.output.width, console.messages._width
    console.output.width, console.messages._width = columns or console.PIPED_SIZE[0], columns
    try:
        yield
    finally:
        console.output.width, console.messages._width = widths
        sys.path[:] = path
        for name in set(sys.modules) - modules:  # packages of this command's PYTHONPATH alone
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(tuple(others)):
                own[name] = sys.modules.pop(name)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        *(
            "tests.cli.command",
            "harness.cli.run",
            "harness.plugins.benchmarks.punkt",
            "harness.engine.samples",
        ),
        *(
            "harness.tasks",
            "harness.backends.openai",
            "harness.backends.simulated",
        ),
        *("harness.report.run_tables", "openai"),
    ]
)


class Begun:
    """A running command, with what tests use of `subprocess.Popen`.

    It is forked from a server that has imported what a run needs: those imports take more than a
    second of CPU.
    """

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path = ROOT) -> None:
        changed = [name for name in READ_ON_IMPORT if env.get(name) != _IMPORTED_WITH[name]]
        assert not changed, f"{changed} count when a module is imported"
        self.arguments = list(arguments)
        self._folder = Path(tempfile.mkdtemp())
        self._files = [self._folder / name for name in ("stdout", "stderr")]
        given = self.arguments, dict(env), cwd, *self._files
        self._process = FORKS.Process(target=_forked, args=given, daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0
        self.kill = self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float = SECONDS) -> tuple[str, str]:
        """Wait for its end; return what it wrote to stdout and stderr."""
        self._process.join(timeout)
        if self.poll() is None:
            self.kill()
            raise TimeoutError
        out, err = (file.read_text() if file.exists() else "" for file in self._files)
        shutil.rmtree(self._folder)
        return out, err

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end; return what `harness` does."""
        out, err = self.communicate()
        return subprocess.CompletedProcess(["harness", *self.arguments], self.returncode, out, err)


def _forked(arguments: list[str], env: dict[str, str], cwd: Path, *files: Path) -> None:
    from harness.cli import main

    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["harness", *arguments]
    with _process_state(env, cwd):
        main()


def begun(*arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Begun:
    """Begin ``harness …`` and leave it running."""
    return Begun([str(each) for each in arguments], os.environ if env is None else env, cwd)


def mistake(ended: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that ended with a user's mistake: short, with no traceback."""
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    lines = ended.stderr.strip().splitlines()
    begins = next(number for number, line in enumerate(lines) if line.startswith("harness: "))
    message = lines[begins:]
    assert len(message) <= 3, message
    return "\n".join(message)


def is_complete(run: str, env: Mapping[str, str] | None = None) -> bool:
    """Whether ``harness ls`` lists a run as complete."""
    ended = harness("ls", "--format", "json", env=None if env is None else dict(env))
    (listed,) = [one for one in json.loads(ended.stdout) if one["run"] == run]
    return bool(listed["complete"])


def words(text: str) -> str:
    """Return a text with single spaces, as if it had not been wrapped."""
    return " ".join(text.split())
