"""Runs a model in this process on vLLM's asynchronous engine, without a server or HTTP.

Needs vLLM in the same environment: ``pip install 'harness-instruct[vllm]'``. Every sample is a
separate request with its own seed and cache key. The samples of a prompt share its computation
through the engine's prefix cache.
"""

import asyncio
import contextlib
import importlib.util
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import override

from harness.backends import DeadlyPrompts, OwnedServers, Turns
from harness.backends.openai import refuse_old_constraints
from harness.errors import FatalCallError, HarnessError, TransientError
from harness.plugin import Backend
from harness.plugins.vllm.in_process import InProcessEngine
from harness.plugins.vllm.model import LOADING, Protocol, VLLMModel, cached_hashes, depth, features
from harness.plugins.vllm.processes import errors_in, tail
from harness.records import Decoding, Reply, Request

# Seconds to wait for an engine to end. Its processes have 10 s, and importing vLLM, which cannot be
# interrupted, takes as long.
END_S = 20.0

_NUMBERS = itertools.count()  # the names of requests, unique within this process


class EngineThread:
    """A thread that loads an engine in its own event loop, and keeps it until `end` is called.

    An engine takes minutes to load and is bound to its event loop, but each variant of a run file
    runs in a new loop. While the engine loads, the display and Ctrl-C keep working.
    """

    def __init__(self, engine: InProcessEngine) -> None:
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._loaded: Future[None] = Future()
        self._loaded.set_running_or_notify_cancel()  # a cancelled waiter must not cancel it
        self._thread = threading.Thread(target=self._run, name="vllm-engine", daemon=True)
        self._thread.start()

    async def loaded(self) -> None:
        """Wait until the engine is loaded, and raise the error if loading fails."""
        await asyncio.wrap_future(self._loaded)

    async def answer(self, request: Request, name: str) -> Reply:
        """Return the loaded engine's reply to a request. ``name`` must be unique in this process.

        Raises:
            TransientError: If the engine has died or failed.
            RequestRejected: If vLLM rejects the request.
            FatalCallError: If ``decoding.extra`` has an unknown field.
        """
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._engine.answer(request, name), self._loop)
        )

    def ended(self) -> bool:
        """Return whether loading has failed or the engine has died. False during loading."""
        if not self._loaded.done():
            return False
        failed = self._loaded.exception() is not None
        return failed or self._engine.dead or not self._thread.is_alive()

    def end(self) -> None:
        """End the engine, even while it loads, and wait for at most 2 * `END_S` seconds."""
        until = time.monotonic() + END_S
        while not self._loaded.done() and time.monotonic() < until:
            self._engine.call_off()
            self._thread.join(0.1)
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(END_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        """Load the engine, keep it until it is no longer needed, and end it."""
        try:
            await self._engine.load()
        except BaseException as error:
            try:
                await self._engine.shutdown()
            finally:
                self._loaded.set_exception(error)
        else:
            self._loaded.set_result(None)
            await self._over.wait()
            await self._engine.shutdown()


class VLLMEngineBackend(Backend):
    """A model on vLLM's engine in this process.

    Args:
        path: Folder of the weights, or their name on the hub (default: the model's name).
        lora: Folder of an adapter, or its name on the hub.
        engine: vLLM's engine arguments, by vLLM's names; ``chat_template`` is a template or its
            file.
        protocol: ``chat`` uses the model's chat template; ``completions`` is for base models.
        restarts: Maximum number of consecutive reloads of an engine that dies without answering.
    """

    cacheable = True
    may_change = frozenset({"engine", "restarts"})

    def __init__(
        self,
        path: str = "",
        lora: str = "",
        engine: dict[str, Any] | None = None,
        protocol: Protocol = "chat",
        restarts: Annotated[int, Field(ge=0)] = 3,
        *,
        model: str = "",
        servers: OwnedServers,
        logs: Path,
        cache_dir: Path,
    ) -> None:
        self._model = VLLMModel(model, path, lora, engine or {}, protocol, cached_hashes(cache_dir))
        self.features = features(protocol)
        self.endpoint = self._model.endpoint()
        self.preferred_concurrency = depth(self._model.engine)
        self._log = logs / "vllm-engine.log"
        self._restarts = restarts
        self._servers = servers
        self._lease = servers.lease(f"engine {self._model!r}")
        self._thread: EngineThread | None = None
        self._prompts = DeadlyPrompts()
        self._turns = Turns(self._prompts)
        self._loads = 0  # since the last answer, including the load of the engine that gave it

    @override
    def fingerprint(self) -> Mapping[str, str]:
        return self._model.fingerprint()

    @property
    @override
    def ready(self) -> bool:
        return self._thread is not None and not self._thread.ended()

    @override
    async def start(self, on_status: Callable[[str], None]) -> None:
        """Load the model, or load it again after the engine died.

        Runs of the same model share the engine.

        Raises:
            FatalCallError: If vLLM is not installed, cannot load the model, or died repeatedly
                without answering.
        """
        if importlib.util.find_spec("vllm") is None:
            remedy = "pip install 'harness-instruct[vllm]', or use vllm_server (harness docs vllm)."
            raise FatalCallError("vLLM is not installed in this environment.", remedy)
        on_status(LOADING)
        failed = self._thread
        renew = self._servers.renew
        thread = await asyncio.to_thread(renew, self._lease, failed, self._launch)
        try:
            await thread.loaded()
        except HarnessError as error:
            raise FatalCallError(error.message, error.remedy) from None
        except Exception as error:  # whatever vLLM raises for a model that cannot be loaded
            message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise self._failed(f"did not start ({message})") from None
        self._thread = thread

    def _launch(self) -> EngineThread:
        if self._loads > self._restarts:
            raise self._failed("died repeatedly without answering")
        self._loads += 1
        return EngineThread(InProcessEngine(self._model, self._log))

    def _failed(self, how: str) -> FatalCallError:
        problem = f"{how}. Its errors:\n{errors_in(tail(self._log))}\n"
        remedy = f"Its whole output is in {self._log}."
        return FatalCallError(f"The vLLM engine of {self._model.name!r} {problem}", remedy)

    @override
    def check_decoding(self, name: str, decoding: Decoding) -> None:
        super().check_decoding(name, decoding)
        refuse_old_constraints(decoding)

    async def generate(self, request: Request) -> Reply:
        """Return the engine's reply.

        Raises:
            TransientError: If the engine has died or failed, or is being reloaded.
            RequestRejected: If vLLM rejects the request, or the prompt has crashed it repeatedly.
        """
        async with self._turns.turn(request) as alone:
            if (thread := self._thread) is None or thread.ended():
                raise TransientError("The vLLM engine is being reloaded.", kind="unreachable")
            try:
                reply = await thread.answer(request, str(next(_NUMBERS)))
            except TransientError as error:
                if error.kind == "connection_lost":
                    self._prompts.died(request, thread, alone=alone)
                raise
            self._prompts.answered(request)
            self._loads = 1
            return reply

    @override
    async def aclose(self) -> None:
        """Release the engine, which ends with its last user."""
        await asyncio.to_thread(self._servers.give_up, self._lease)
