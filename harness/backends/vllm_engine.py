"""A model in this process, by vLLM's asynchronous engine: no server, no HTTP.

    model: {backend: vllm_engine, name: meta-llama/Llama-3.1-8B-Instruct}
    model: {backend: vllm_engine, name: mine, path: /models/mine, engine: {max_model_len: 8192}}

Needs vLLM beside the harness: ``pip install 'harness[vllm]'``. Every sample is a request of its
own, with a seed and a cache key of its own; those of one prompt share its computation by the
engine's prefix cache. An engine that dies is made anew.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness.backends._last_words import TAIL_LINES, telling
from harness.backends._model_files import Hashes
from harness.backends._owned_servers import OwnedServers
from harness.backends._seating import Seating, Seats
from harness.backends._server_process import tail
from harness.backends._suspects import Suspects
from harness.backends._vllm_arguments import depth
from harness.backends._vllm_engine_thread import EngineThread
from harness.backends._vllm_in_process import InProcessEngine
from harness.backends._vllm_model import Protocol, VLLMModel, features
from harness.errors import FatalCallError, HarnessError, TransientError
from harness.records import Reply, Request


class VLLMEngineBackend:
    """vLLM's engine in this process.

    path: folder of the weights, or their name on the hub, where it is not the model's name.
    lora: folder of an adapter, or its name on the hub.
    engine: vLLM's engine arguments, by its own names; and ``chat_template``, a file.
    protocol: chat, by the model's chat template; or completions, for base models.
    restarts: how often in a row an engine that dies without an answer is made anew.
    """

    cacheable = True

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
        hashes: Hashes,
    ) -> None:
        self._model = VLLMModel(model, path, lora, engine or {}, protocol, hashes)
        self.features = features(protocol)
        self.endpoint = self._model.endpoint()
        self.preferred_concurrency = depth(self._model.engine)
        self._log = logs / "vllm-engine.log"
        self._restarts = restarts
        self._servers = servers
        self._name = f"engine {self._model!r}"
        self._thread: EngineThread | None = None
        self._used = False
        self._life = 0
        self._seating = Seating([Seats(sys.maxsize)])
        self._suspects = Suspects()
        self._makings = 0  # since the last answer, with the engine that gave it
        servers.want(self._name)

    def fingerprint(self) -> Mapping[str, str]:
        """What the weights are."""
        return self._model.fingerprint()

    @property
    def ready(self) -> bool:
        """Whether the engine lives."""
        return self._thread is not None and not self._thread.ended()

    async def start(self, tell: Callable[[str], None]) -> None:
        """Load the model, for the first time or again; or join the run that has loaded it.

        Raises: FatalCallError where that fails.
        """
        if importlib.util.find_spec("vllm") is None:
            raise FatalCallError(
                "vLLM is not installed beside the harness.",
                "pip install 'harness[vllm]', or use the backend vllm_server (docs/vllm.md).",
            )
        if not self._used:
            self._servers.use(self._name)
            self._used = True
        found = await asyncio.to_thread(self._servers.renew, self._name, self._thread, self._launch)
        try:
            await found.loaded()
        except HarnessError as error:
            raise FatalCallError(error.message, error.remedy) from None
        except Exception as error:  # whatever a model that cannot be loaded makes vLLM raise
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise self._failed(f"did not start ({said})") from None
        self._thread = found
        self._life += 1

    def _launch(self) -> EngineThread:
        if self._makings > self._restarts:
            raise self._failed("died again and again, without an answer in between")
        self._makings += 1
        return EngineThread(InProcessEngine(self._model, self._log))

    def _failed(self, how: str) -> FatalCallError:
        words = telling(tail(self._log, lines=TAIL_LINES))
        return FatalCallError(
            f"The vLLM engine of {self._model.name!r} {how}. It says:\n{words}\n",
            f"All that it said is in {self._log}.",
        )

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises: a `harness.errors.CallError`.
        """
        alone = self._suspects.alone(request)
        seats = await self._seating.take(alone=alone)
        try:
            if (thread := self._thread) is None or thread.ended():
                raise TransientError(
                    "The vLLM engine is not up.", "It is made anew.", kind="unreachable"
                )
            reply = await thread.answer(request, str(next(_NUMBERS)))
        except TransientError as error:
            if error.kind == "connection_lost":
                self._suspects.died(request, self._life, alone=alone)
            raise
        finally:
            self._seating.leave(seats)
        self._suspects.answered(request)
        self._makings = 1
        return reply

    async def aclose(self) -> None:
        """End the engine where nobody else of this process wants it."""
        await asyncio.to_thread(self._servers.give_up, self._name, used=self._used)
        self._used = False


_NUMBERS = itertools.count()
"""Names of requests, unique in this process."""

plugin = VLLMEngineBackend
