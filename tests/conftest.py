"""What several tests share: a toy task, a scripted backend, a loopback provider."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from harness.config.run_file import RunFile
from harness.errors import Unparseable
from harness.execution import set_code_permission
from harness.plugin import Backend, Task
from harness.plugin_loader import _registered
from harness.plugins.mock.server import MockServer
from harness.records import Instance, Message, Reply, Request, Score, Usage
from tests.postgres import Postgres, binary

ROOT = Path(__file__).parents[1]


@pytest.fixture
def executing_code() -> Iterator[None]:
    """The permission of a command that executes the files that a run file names."""
    with set_code_permission("allowed"):
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Property tests try fewer examples in the quick stage: CI repeats them in the exhaustive one.

    A machine may be busy: slow examples do not fail a test.
    """
    quick = "not exhaustive" in config.option.markexpr
    settings.register_profile(
        "here",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=25 if quick else 100,
    )
    settings.load_profile("here")


class Sums(Task[int]):
    """A toy task: add two numbers. Instance n asks n + n; every third shares a prompt."""

    def __init__(self, n: int = 6, on_truncated: str = "fail", shared: bool = False) -> None:
        self.n = n
        self.on_truncated: Any = on_truncated
        self.shared = shared

    def instances(self) -> Iterator[Instance[int]]:
        for number in range(self.n):
            asked = number % 3 if self.shared else number
            yield Instance(f"sum/{number}", asked, {"parity": "odd" if number % 2 else "even"})

    def fingerprint(self) -> Mapping[str, str]:
        return {"dataset": "sums"}

    def messages(
        self, instance: Instance[int], shots: Sequence[Instance[int]]
    ) -> tuple[Message, ...]:
        return (Message("user", f"What is {instance.data} + {instance.data}?"),)

    def score(self, instance: Instance[int], text: str) -> Mapping[str, Score]:
        try:
            answer = int(text)
        except ValueError:
            raise Unparseable(f"{text!r} is no number") from None
        right = answer == 2 * instance.data
        return {"exact": Score(right, right, "" if right else f"{answer} is wrong")}

    def feedback(self, instance: Instance[int], text: str, scores: Mapping[str, Score]) -> str:
        return f"{text} is wrong."

    def reference(self, instance: Instance[int]) -> str | None:
        return str(2 * instance.data)


def sum_asked(request: Request) -> int:
    return int(request.messages[0].content.split()[2])


class Scripted(Backend):
    """A backend that answers with a function of the request, and counts."""

    endpoint = "scripted"
    features: frozenset[str] = frozenset({"seed"})

    def __init__(
        self,
        answer: Callable[[Request], str | Reply | Exception] | None = None,
        *,
        cacheable: bool = True,
        delay: float = 0.0,
    ) -> None:
        self.answer = answer or (lambda request: str(2 * sum_asked(request)))
        self.cacheable = cacheable
        self.delay = delay
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def generate(self, request: Request) -> Reply:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.delay)
            said = self.answer(request)
        finally:
            self.in_flight -= 1
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Reply) else Reply(said, "stop", Usage(3, 2))


def run_file(**changes: Any) -> RunFile:
    """A run file on nothing in particular; changes by section."""
    return RunFile.model_validate(
        {"task": {"name": "sums"}, "model": {"backend": "scripted", "name": "m"}} | changes
    )


@pytest.fixture
def mock_server() -> Iterator[MockServer]:
    with MockServer() as server:
        yield server


@pytest.fixture(scope="session")
def _postgres() -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    binary("initdb")
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture
def postgres(_postgres: Postgres) -> Iterator[Postgres]:
    """A PostgreSQL server that the tests share. A test may stop it."""
    yield _postgres
    if not _postgres.running:
        _postgres.start()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow files first: those that begin last keep one core waiting for the other.

    Three others follow each: the slow ones wait for servers and processes, and would wait together.
    """

    def haste(file: Path) -> int:
        if file.name in ("test_api.py", "test_browser.py", "test_docs.py", "test_testing.py"):
            return 0
        return 1 if file.parent.name in ("cli", "team", "batches") else 2

    files = dict.fromkeys(item.path for item in items)
    slow = sorted((file for file in files if haste(file) < 2), key=haste)
    quick = [file for file in files if haste(file) == 2]
    turns = {file: 2 * number for number, file in enumerate(slow)}
    turns |= {file: 2 * (number // 3) + 1 for number, file in enumerate(quick)}
    items.sort(key=lambda item: turns[item.path])


gc.disable()  # what is loaded and collected stays: an eighth of that time would go to collections


def pytest_collection_finish() -> None:
    """Let full collections be rare too: each examines all tests, and a run makes the next one due.

    A sixth of the tests' time went to them.
    """
    gc.set_threshold(*gc.get_threshold()[:2], 200)
    gc.enable()


@pytest.fixture(scope="session")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths of new folders: `mktemp` would list all the folders before."""
    root = tmp_path_factory.mktemp("harness")
    return (root / str(number) for number in itertools.count())


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, _folders: Iterator[Path]) -> Path:
    """A new folder, as of pytest, which would list the folders of all the tests before."""
    folder = next(_folders)
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = folder.with_name(f"{folder.name}-{name}")
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _own_folders(_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the runs, the caches or the keys of the person who runs it."""
    folder = next(_folders)
    folder.mkdir()
    for name in ("runs", "cache"):
        monkeypatch.setenv(f"HARNESS_{name.upper()}_DIR", str(folder / name))
    monkeypatch.setenv("HARNESS_FETCH", "false")
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_CACHE_URL", "_CACHE_KEY")):
            monkeypatch.delenv(name)


@pytest.fixture
def program_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder of a program that uses the Python API, with its runs and data.

    What the test registers is forgotten.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("HARNESS_DATA_DIR", str(tmp_path / "data"))
    before = dict(_registered)
    yield tmp_path
    _registered.clear()
    _registered.update(before)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Recorded data of others, where it is there."""
    folder = Path(os.environ.get("HARNESS_DATA_DIR", ROOT.parent / "shared" / "data"))
    if not (folder / "collie" / "instances.jsonl").is_file():
        pytest.skip("no reference data: set HARNESS_DATA_DIR")
    return folder
