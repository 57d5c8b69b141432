"""Real servers, each in an environment of its own; without it, its tests are skipped."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.stats import Limits
from harness.plugins.vllm.processes import free_port
from tests.backends.answering import answering
from tests.backends.stand_ins import until

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
SECONDS = 120  # of a run, and until a server is up: they load slowly on a busy machine
LATENCY = 0.2

# Errors of OpenAI, word for word
SPENT = {
    "message": "You exceeded your current quota, please check your plan and billing details. For "
    "more information on this error, read the docs: "
    "https://platform.openai.com/docs/guides/error-codes/api-errors.",
    "type": "insufficient_quota",
    "param": None,
    "code": "insufficient_quota",
}
FILTERED = {
    "message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy. "
    "Please try again with a different prompt.",
    "type": "invalid_request_error",
    "param": None,
    "code": "invalid_prompt",
}


def python(name: str) -> Path:
    """The Python of a server's environment."""
    path = ROOT / f".venv-{name}" / "bin" / "python"
    if not (ROOT / f".venv-{name}" / ".made").exists():
        pytest.skip(f"no .venv-{name} here: scripts/test-servers makes it and runs this")
    return path


class Server:
    """A server's process, which may be killed and started again at the same address."""

    ready = "/"  # answers with status 200 once the server is up

    def __init__(self, folder: Path, port: int, command: list[str], env: dict[str, str]) -> None:
        self.folder = folder
        self.port = port
        self._command = command
        self._env = {**os.environ, **env}
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def start(self) -> None:
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                self._command, cwd=self.folder, env=self._env, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        until(lambda: self._is_up() or self.process.poll() is not None, "it is up", SECONDS)
        assert self.process.poll() is None, self.log[-3000:]

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def fail(self) -> None:
        """Fail in the middle of calls, and be up again later."""
        self.kill()
        self.start()

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def _is_up(self) -> bool:
        return self.get(self.ready)[0] == 200


class LiteLLMProxy(Server):
    """LiteLLM's proxy. A key ``sk-parallel-N`` allows N calls at once."""

    ready = "/health/liveliness"

    def __init__(self, folder: Path, upstreams: dict[str, str]) -> None:
        models = [
            {
                "model_name": name,
                "litellm_params": {"model": "openai/m", "api_base": url, "api_key": "sk-none"},
            }
            for name, url in upstreams.items()
        ]
        models.append(
            {
                "model_name": "two_at_once",
                "litellm_params": {**models[0]["litellm_params"], "max_parallel_requests": 2},
            }
        )
        config = {
            "model_list": models,
            "general_settings": {
                "custom_auth": "litellm_keys.authenticate",
                "dangerously_permit_weak_or_unset_master_key": True,
            },
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        (folder / "litellm_keys.py").write_bytes((HERE / "litellm_keys.py").read_bytes())
        port = free_port()
        program = str(python("litellm").with_name("litellm"))
        command = [program, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
        super().__init__(folder, port, command, env)


class RayServe(Server):
    """Ray Serve. Its model ``greedy`` ignores the parameters of sampling, and log-probabilities."""

    ready = "/process"

    def __init__(self, folder: Path, upstream: str) -> None:
        port = free_port()
        command = [str(python("serve")), str(HERE / "serve_app.py"), str(port), upstream]
        env = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        super().__init__(folder, port, command, env)

    def fail(self) -> None:
        """Kill the process of the model: Serve starts another one."""
        os.kill(int(self.get("/process")[1]), signal.SIGKILL)

    def kill(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class LlamaServer(Server):
    """llama-cpp-python's server with a model of random weights."""

    ready = "/v1/models"

    def __init__(self, folder: Path) -> None:
        program = str(python("llama"))
        model = folder / "tiny.gguf"
        subprocess.run([program, HERE / "tiny_gguf.py", model], check=True)
        port = free_port()
        options = ["--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
        super().__init__(folder, port, [program, "-m", "llama_cpp.server", *options], {})

    def answered(self, path: str = "/v1/chat/completions", status: int = 200) -> int:
        """Count the requests that have been answered with this status."""
        return self.log.count(f'"POST {path} HTTP/1.1" {status}')


class Bench:
    """A folder to run the harness in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._env = {
            **os.environ,
            "HARNESS_RUNS_DIR": str(folder / "runs"),
            "HARNESS_CACHE_DIR": str(folder / "cache"),
            "GATEWAY_KEY": "sk-gateway",
            "COLUMNS": "200",
        }

    def begin(self, tree: dict[str, Any], **env: str) -> subprocess.Popen[str]:
        (self.folder / "it.yaml").write_text(yaml.safe_dump(tree))
        return subprocess.Popen(
            [sys.executable, "-m", "harness", "run", "it.yaml"], cwd=self.folder,
            env={**self._env, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, tree: dict[str, Any], code: int = 0, **env: str) -> str:
        """Run to the end, and return the output."""
        process = self.begin(tree, **env)
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == code, output
        return output

    def forget(self) -> None:
        """Remove all runs and replies."""
        shutil.rmtree(self.folder / "runs")
        shutil.rmtree(self.folder / "cache")

    def attempts(self) -> list[dict[str, Any]]:
        path = self.folder / "runs" / "it" / "attempts.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return [json.loads(line) for line in lines[:-1]]

    def outcomes(self) -> dict[tuple[str, int], str]:
        """The outcome by instance and sample. Each has one attempt."""
        attempts = self.attempts()
        outcomes = {(one["instance"], one["sample"]): one["outcome"] for one in attempts}
        assert len(outcomes) == len(attempts)
        return outcomes


def prompt(number: int) -> str:
    return f"This is question {number:02}."


def run_file(model: dict[str, Any], prompts: int = 12, **sections: Any) -> dict[str, Any]:
    """The content of a run file on some prompts."""
    rows = [{"id": f"r{number}", "text": prompt(number)} for number in range(prompts)]
    checks = [{"contains": {"target": "a"}}]
    return {
        "task": {"rows": rows, "prompt": "{{ text }}", "checks": checks},
        "model": {"backend": "openai", "api_key_env": "GATEWAY_KEY", **model},
        "limits": {"concurrency": 4},
        **sections,
    }


@pytest.fixture(scope="session")
def provider() -> Iterator[MockServer]:
    """The server behind the gateways, which counts what they send."""
    with MockServer(latency=LATENCY) as server:
        yield server


@pytest.fixture
def upstream(provider: MockServer) -> Iterator[MockServer]:
    """The same, well and with new counts."""
    provider.change(latency=LATENCY)
    until(lambda: not provider.stats().in_flight, "earlier calls have ended")
    httpx2.post(f"{provider.url}/stats/reset")
    yield provider
    provider.change(faults={}, fault_on=[], limits=Limits())


@pytest.fixture(scope="session")
def litellm(
    provider: MockServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiteLLMProxy]:
    python("litellm")
    with (
        answering(json.dumps({"error": SPENT}), 429) as (spent, _),
        answering(json.dumps({"error": FILTERED}), 400) as (filtered, _),
    ):
        upstreams = {"m": provider.base_url, "spent": spent, "filtered": filtered}
        server = LiteLLMProxy(tmp_path_factory.mktemp("litellm"), upstreams)
        yield server
        server.kill()


@pytest.fixture(scope="session")
def ray_serve(provider: MockServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayServe]:
    python("serve")
    server = RayServe(tmp_path_factory.mktemp("serve"), provider.base_url)
    yield server
    server.kill()


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    server = LlamaServer(tmp_path_factory.mktemp("llama"))
    yield server
    server.kill()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
