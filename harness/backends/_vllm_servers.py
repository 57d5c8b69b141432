"""A vLLM server as one of several: somebody else's, or one that the harness starts and owns."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.backends._last_words import TAIL_LINES, remedy, telling
from harness.backends._owned_servers import OwnedServers
from harness.backends._server_process import ServerProcess, free_port
from harness.backends._vllm_arguments import flags
from harness.backends._vllm_health import Health
from harness.backends._vllm_model import VLLMModel
from harness.errors import ConfigError, FatalCallError
from harness.records import Reply, Request

STEP_S, LONGEST_STEP_S = 0.2, 10.0
"""Between two looks whether a server is there."""

NO_KEY = "Have HARNESS_VLLM_COMMAND start it without an API key: only this machine reaches it."

ENTRY_POINT = ("-m", "vllm.entrypoints.openai.api_server")


class Wire(Protocol):
    """A client of a server's protocol."""

    async def generate(self, request: Request) -> Reply:
        """Its answer; raises a `harness.errors.CallError`."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


Dial = Callable[[str], Wire]
"""A client of the server at a base URL."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that was started: its process, and the base URL of its protocol."""

    process: ServerProcess
    url: str

    def ended(self) -> bool:
        """Whether it runs no more."""
        return self.process.ended()

    def end(self) -> None:
        """End it."""
        self.process.end()


class GivenServer:
    """A server that runs already.

    model: that it is asked for.
    key: that it wants, empty for none. key_remedy: what to do where it lets nobody in.
    """

    owned = False

    def __init__(self, base_url: str, dial: Dial, model: str, key: str, key_remedy: str) -> None:
        self._wire = dial(base_url)
        self._model = model
        self._health = Health(base_url, key, key_remedy)
        self._met = False

    async def ask(self, request: Request) -> Reply:
        """Its answer.

        Raises: a `harness.errors.CallError`.
        """
        return await self._wire.generate(request)

    async def well(self) -> bool:
        """Whether it answers; one that has not answered before is asked for its models too.

        Raises: FatalCallError where these say that it is the wrong one.
        """
        well = await self._health.well()
        if well and not self._met:
            await self._health.lists(self._model)
        self._met = well
        return well

    async def revive(self) -> None:
        """Return when it is back.

        Raises: what `well` raises.
        """
        step = STEP_S
        while not await self.well():
            await asyncio.sleep(step)
            step = min(2 * step, LONGEST_STEP_S)

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.aclose()
        await self._health.aclose()


class OwnServer:
    """A server of the harness's own: started at the first need, and again when it dies.

    model: what it serves.
    gpus: those it works on, as CUDA names them; empty for what it finds.
    servers: where it is kept.
    name: there.
    log: file of its output.
    start_s: seconds that it may take to be ready.
    restarts: deaths without an answer between them until it is given up.
    """

    owned = True

    def __init__(
        self,
        model: VLLMModel,
        gpus: Sequence[str],
        servers: OwnedServers,
        name: str,
        log: Path,
        dial: Dial,
        *,
        start_s: float,
        restarts: int,
    ) -> None:
        self._model = model
        self._gpus = tuple(gpus)
        self._servers = servers
        self._name = name
        self._log = log
        self._dial = dial
        self._start_s = start_s
        self._restarts = restarts
        self._now: Running | None = None
        self._wire: Wire | None = None
        self._health: Health | None = None
        self._starts = 0  # since it last answered, with that one
        self._answered = False
        self._used = False
        servers.want(name)

    async def ask(self, request: Request) -> Reply:
        """Its answer.

        Raises: a `harness.errors.CallError`.
        """
        assert self._wire is not None, "asked before it was started"
        reply = await self._wire.generate(request)
        self._starts, self._answered = 1, True
        return reply

    async def well(self) -> bool:
        """Whether it runs and answers."""
        now, health = self._now, self._health
        return bool(now and health and not now.ended() and await health.well())

    async def revive(self) -> None:
        """Start it, or join the one that another model of this process has started.

        Raises: FatalCallError with its last words where it does not come up.
        """
        while True:
            if not self._used:
                self._servers.use(self._name)
                self._used = True
            before = self._starts
            found = await asyncio.to_thread(
                self._servers.renew, self._name, self._now, self._launch
            )
            self._now = found
            try:
                health = await self._met(found)
            except FatalCallError:  # whatever it is, it is not what was to be started
                await asyncio.to_thread(found.end)
                raise
            if health is not None:
                await self._hang_up()
                self._wire, self._health = self._dial(found.url), health
                return
            if self._starts == before:
                continue  # another's, which has died in the meantime
            clash = "address already in use" in found.process.last_words().lower()
            if not (self._answered or clash) or self._starts > self._restarts:
                await asyncio.to_thread(found.end)
                raise self._failed("did not start")

    async def _met(self, running: Running) -> Health | None:
        """Wait until it is well and serves the model; None where it ended before, or is late.

        Raises: FatalCallError where it never will.
        """
        end = time.monotonic() + self._start_s
        step = STEP_S
        async with contextlib.AsyncExitStack() as unless_met:
            health = Health(running.url, remedy=NO_KEY)
            unless_met.push_async_callback(health.aclose)
            while not running.ended() and time.monotonic() < end:
                if await health.well() and await health.lists(self._model.name):
                    unless_met.pop_all()
                    return health
                await asyncio.sleep(step)
                step = min(1.2 * step, 2.0)
        return None

    def _failed(self, how: str) -> FatalCallError:
        words = self._now.process.last_words(TAIL_LINES) if self._now else ""
        return FatalCallError(
            f"The vLLM server of {self._model.name!r} {how}. It says:\n{telling(words)}\n",
            f"{remedy(words)} All that it said is in {self._log}.".strip(),
        )

    def _launch(self) -> Running:
        if self._starts > self._restarts:
            raise self._failed("died again and again, without an answer in between")
        self._starts += 1
        model, port = self._model, free_port()
        command = [
            *self._program(),
            *("--model", model.weights, "--host", "127.0.0.1", "--port", str(port)),
            *self._names(),
            *flags({"enable_prompt_tokens_details": True, **model.engine}),
        ]
        gpus = [f"CUDA_VISIBLE_DEVICES={','.join(self._gpus)}"] if self._gpus else []
        # A key of servers elsewhere would keep the harness itself out.
        command = ["env", "-u", "VLLM_API_KEY", *gpus, *command]
        return Running(ServerProcess(command, self._log), f"http://127.0.0.1:{port}/v1")

    def _program(self) -> list[str]:
        if self._servers.command:
            return list(self._servers.command)
        if importlib.util.find_spec("vllm") is None:
            raise ConfigError(
                "vLLM is not installed beside the harness.",
                "pip install 'harness[vllm]', or set HARNESS_VLLM_COMMAND to what starts its "
                "server (docs/vllm.md).",
            )
        return [sys.executable, *ENTRY_POINT]

    def _names(self) -> list[str]:
        """What the model, or its adapter, is called in requests."""
        model = self._model
        if not model.adapter:
            return ["--served-model-name", model.name]
        return [
            *("--served-model-name", f"{model.name}-base"),
            *("--enable-lora", "--lora-modules", f"{model.name}={model.adapter}"),
        ]

    async def _hang_up(self) -> None:
        for held in (self._wire, self._health):
            if held is not None:
                await held.aclose()
        self._wire = self._health = None

    async def close(self) -> None:
        """Close the connections; end the server where nobody else of this process wants it."""
        await self._hang_up()
        await asyncio.to_thread(self._servers.give_up, self._name, used=self._used)
        self._used = False


def server_name(model: VLLMModel, gpus: Sequence[str], command: Sequence[str], number: int) -> str:
    """What tells a server from the others of this process: all that it is started with.

    number: which of a model's replicas.
    """
    adapter = [model.name, model.adapter]
    return repr((*command, model.weights, adapter, sorted(model.engine.items()), gpus, number))
