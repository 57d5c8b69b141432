"""The real vLLM, in an environment of its own; without it these tests are left out.

What they measure stands at the end of pytest's output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from harness.plugins.vllm.model import flags
from harness.plugins.vllm.processes import free_port
from tests.backends.stand_ins import alive, until

ROOT = Path(__file__).parents[4]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
ENTRY_POINT = f"{PYTHON} -m vllm.entrypoints.openai.api_server"
ENGINE = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 2048,
    "block_size": 32,
    # On a CPU, vLLM 0.32 dies of a prompt that has a seed and is computed in parts.
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 16384,
}
SECONDS = 600

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> list[str]:
    """Lines for the end of the output."""
    return request.config.stash.setdefault(FIGURES, [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if told := config.stash.get(FIGURES, []):
        terminalreporter.section("vLLM, measured")
        for line in told:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model of random weights."""
    return made(tmp_path_factory.mktemp("tiny"))


def made(folder: Path, *options: str) -> Path:
    """Make a model in a folder (see tiny_model.py), and return the folder."""
    if not PYTHON.exists():
        pytest.skip("no vLLM here: scripts/test-vllm makes it and runs this")
    script = Path(__file__).with_name("tiny_model.py")
    command = [PYTHON, script, folder, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet(folder))
    assert ended.returncode == 0, ended.stderr[-3000:]
    return folder


def quiet(home: Path) -> dict[str, str]:
    """The environment of vLLM's programs: little memory for its cache, and no network."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("HARNESS_VLLM")},
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "COLUMNS": "200",
    }


class Bench:
    """A folder to run the harness in, with one of the two backends.

    backend: ``vllm_server`` runs beside vLLM, and starts it; ``vllm_engine`` runs within it.
    """

    def __init__(self, folder: Path, model: Path, backend: str) -> None:
        self.folder = folder
        self.backend = backend
        self.env = {
            **quiet(folder),
            "HARNESS_RUNS_DIR": str(folder / "runs"),
            "HARNESS_CACHE_DIR": str(folder / "cache"),
            "HARNESS_VLLM_COMMAND": ENTRY_POINT,
        }
        self.model = {"backend": backend, "name": "tiny", "path": str(model), "engine": ENGINE}
        self._python = PYTHON if backend == "vllm_engine" else Path(sys.executable)

    def command(self, content: dict[str, Any]) -> list[str]:
        """What runs a run file of this content."""
        file = self.folder / "it.yaml"
        file.write_text(yaml.safe_dump(content))
        return [str(self._python), "-m", "harness", "run", str(file)]

    def begin(self, content: dict[str, Any]) -> subprocess.Popen[str]:
        """Begin a run, and leave it running."""
        with (self.folder / "output.txt").open("w") as output:
            return subprocess.Popen(
                self.command(content), cwd=ROOT, env=self.env, stdout=output, stderr=output,
                text=True,
            )  # fmt: skip

    def run(self, content: dict[str, Any]) -> None:
        """Run to the end."""
        process = self.begin(content)
        try:
            assert process.wait(SECONDS) == 0, self.output()
        finally:
            process.kill()

    def output(self) -> str:
        return (self.folder / "output.txt").read_text()[-6000:]

    def attempts(self, variant: str = "") -> list[dict[str, Any]]:
        path = self.folder / "runs" / f"it{'.' if variant else ''}{variant}" / "attempts.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return [msgspec.json.decode(line) for line in lines[:-1]]

    def metrics(self, variant: str = "") -> dict[str, Any]:
        path = self.folder / "runs" / f"it{'.' if variant else ''}{variant}" / "metrics.json"
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def log(self, variant: str = "") -> str:
        """What vLLM has said."""
        folder = self.folder / "runs" / f"it{'.' if variant else ''}{variant}"
        return "".join(path.read_text() for path in folder.rglob("vllm*.log"))


@pytest.fixture(scope="module", params=["vllm_server", "vllm_engine"])
def backend(request: pytest.FixtureRequest) -> str:
    """Both, each by itself."""
    return str(request.param)


@pytest.fixture(scope="module")
def bench(model: Path, backend: str, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp(backend), model, backend)


def descendants(pid: int) -> dict[int, str]:
    """All processes that a process has begun, also by others, with their names."""
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(parent, []).append(int(entry.name))
    found: dict[int, str] = {}
    left = [pid]
    while left:
        for child in parents.get(left.pop(), []):
            found[child] = names.get(child, "")
            left.append(child)
    return found


def memory_mb(pids: list[int]) -> float:
    """What processes hold, in megabytes; shared pages are counted in parts."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


@contextmanager
def server(
    model: Path, folder: Path, engine: Mapping[str, Any] = ENGINE
) -> Iterator[tuple[str, int]]:
    """Start a server that is nobody's, with its log in a folder: its root URL and its process."""
    port = free_port()
    words = f"--model {model} --served-model-name tiny --port {port}"
    more = [*flags(engine), "--disable-uvicorn-access-log"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*ENTRY_POINT.split(), *words.split(), *more],
            stdout=log, stderr=log, env=quiet(folder), start_new_session=True,
        )  # fmt: skip
    try:
        until(lambda: answers(port) or process.poll() is not None, "the server is up", SECONDS)
        assert process.poll() is None, (folder / "server.log").read_text()[-3000:]
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        family = list(descendants(process.pid))
        process.terminate()
        process.wait(60)
        until(lambda: not any(map(alive, family)), "its processes are gone")


def answers(port: int) -> bool:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
