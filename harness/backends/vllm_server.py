"""A model served by vLLM: by servers that are there, or by one that the harness starts and owns.

    model: {backend: vllm_server, name: meta-llama/Llama-3.1-8B-Instruct}
    model: {backend: vllm_server, name: my-model, path: /models/mine, engine: {max_model_len: 8192}}
    model: {backend: vllm_server, name: my-model, base_url: "http://node1:8000/v1"}

The protocol is OpenAI's with vLLM's own fields, as of the preset ``vllm`` of `openai`. Without a
``base_url`` the server's life is that of the runs that need it: it is started at the first call
that no cache answers, started again when it dies, and ended with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness.backends._model_files import Hashes
from harness.backends._open_files import connections
from harness.backends._owned_servers import OwnedServers
from harness.backends._replicas import Replicas, Tell
from harness.backends._vllm_arguments import depth, gpus_needed
from harness.backends._vllm_model import Protocol, VLLMModel, features
from harness.backends._vllm_servers import GivenServer, OwnServer, Wire, server_name
from harness.backends.openai import OpenAIBackend
from harness.backends.openai_completions import OpenAICompletionsBackend
from harness.errors import ConfigError
from harness.records import Reply, Request

KEY_MISSING = "Name the environment variable that holds its key in model.api_key_env."
KEY_GIVEN = "Check the key in the environment variable {}."

START_S, RESTARTS = 1800.0, 3


class VLLMServerBackend:
    """A vLLM server, or several of one model.

    path: folder of the weights, or their name on the hub, where it is not the model's name.
    lora: folder of an adapter, or its name on the hub.
    engine: vLLM's engine arguments, by its own names, for servers that the harness starts.
    replicas: servers to start; requests go to the least loaded.
    gpus: for each of them the GPUs that it works on, such as "0,1"; left out: the first ones for
        the first, and so on, as many as its parallel sizes make.
    base_url: of a server that is there, instead.
    replicas_at: base URLs of further servers of the same model. They may change from one session
        to the next: replies are kept under `base_url`.
    api_key_env: the environment variable that holds the key of servers that are there.
    protocol: chat, by the model's chat template; or completions, for base models.
    start_s: seconds that a server may take until it is ready.
    restarts: how often in a row one that dies without an answer is started again.
    """

    cacheable = True

    def __init__(
        self,
        path: str = "",
        lora: str = "",
        engine: dict[str, Any] | None = None,
        replicas: Annotated[int, Field(ge=1)] = 1,
        gpus: list[str] | None = None,
        base_url: str | None = None,
        replicas_at: list[str] | None = None,
        api_key_env: str | None = None,
        protocol: Protocol = "chat",
        start_s: Annotated[float, Field(gt=0)] = START_S,
        restarts: Annotated[int, Field(ge=0)] = RESTARTS,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        model: str = "",
        servers: OwnedServers,
        logs: Path,
        hashes: Hashes,
    ) -> None:
        def dial(url: str) -> Wire:
            kind = OpenAIBackend if protocol == "chat" else OpenAICompletionsBackend
            return kind(
                *("vllm", url, api_key_env),
                secret=secret,
                concurrency=self._seats,
                timeout_s=timeout_s,
                model=model,
            )

        self.features = features(protocol)
        self._served: VLLMModel | None = None
        if base_url is not None:
            own = {"start_s": start_s != START_S, "restarts": restarts != RESTARTS}
            given = {"path": path, "lora": lora, "engine": engine, "gpus": gpus, **own}
            _refuse(given, "model.base_url names a server that runs already")
            if replicas != 1:
                raise ConfigError(
                    "model.replicas are servers to start, and model.base_url names one.",
                    "List further servers in model.replicas_at.",
                )
            urls = dict.fromkeys([base_url, *(replicas_at or [])])
            self.endpoint = base_url.rstrip("/")
            self.preferred_concurrency, self._seats = _seats(depth({}), len(urls), concurrency)
            key = secret(api_key_env) if api_key_env else ""
            remedy = KEY_GIVEN.format(api_key_env) if api_key_env else KEY_MISSING
            self._replicas = Replicas(
                [GivenServer(url, dial, model, key, remedy) for url in urls], self._seats
            )
            return
        given = {"replicas_at": replicas_at, "api_key_env": api_key_env}
        _refuse(given, "model.base_url is not set, so the harness starts the server itself")
        self._served = served = VLLMModel(model, path, lora, engine or {}, protocol, hashes)
        sets = _gpu_sets(replicas, gpus, gpus_needed(served.engine), servers.gpus)
        self.endpoint = served.endpoint()
        self.preferred_concurrency, self._seats = _seats(
            depth(served.engine), replicas, concurrency
        )
        self._replicas = Replicas(
            [
                OwnServer(
                    served,
                    own,
                    servers,
                    server_name(served, own, servers.command, number),
                    logs / f"vllm-{number}.log",
                    dial,
                    start_s=start_s,
                    restarts=restarts,
                )
                for number, own in enumerate(sets)
            ],
            self._seats,
        )

    def fingerprint(self) -> Mapping[str, str]:
        """What the weights are, where they are known."""
        return {} if self._served is None else self._served.fingerprint()

    @property
    def ready(self) -> bool:
        """Whether a server can be asked now."""
        return self._replicas.ready

    async def start(self, tell: Tell) -> None:
        """Wait until a server can be asked.

        Raises: FatalCallError where none comes up.
        """
        self._replicas.tell = tell
        await self._replicas.start()

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises: a `harness.errors.CallError`.
        """
        return await self._replicas.ask(request)

    async def aclose(self) -> None:
        """Close the connections, and end the servers that nobody else wants."""
        await self._replicas.close()


def _seats(depth: int, servers: int, concurrency: int) -> tuple[int, int]:
    """How many calls all servers want in flight, and how many each may have.

    Each may have what it wants, or its part of what the user states where that is more; and no
    more than this process has connections for.

    depth: what keeps one server busy.
    """
    room = max(1, connections() // servers)
    return min(depth, room) * servers, min(max(depth, math.ceil(concurrency / servers)), room)


def _refuse(given: dict[str, Any], why: str) -> None:
    """Refuse options that would change nothing."""
    for name, value in given.items():
        if value:
            raise ConfigError(f"model.{name} changes nothing: {why}.", "Remove one of the two.")


def _gpu_sets(
    replicas: int, gpus: list[str] | None, needed: int, there: tuple[str, ...] | None
) -> list[tuple[str, ...]]:
    """The GPUs of each replica; empty for whatever the only one finds.

    needed: by each.
    there: those that may be used; empty where all are hidden, None where nobody said.
    """
    if gpus is not None:
        if len(gpus) != replicas:
            raise ConfigError(
                f"model.gpus names the GPUs of {len(gpus)} servers, and model.replicas is "
                f"{replicas}.",
                'Name them for each, like ["0,1", "2,3"].',
            )
        return [tuple(part.strip() for part in own.split(",")) for own in gpus]
    if replicas == 1 or there == ():
        return [()] * replicas
    named = there or tuple(str(number) for number in range(replicas * needed))
    if len(named) < replicas * needed:
        raise ConfigError(
            f"{replicas} servers on {needed} GPUs each need {replicas * needed}, and "
            f"CUDA_VISIBLE_DEVICES names {len(named)}.",
            "Lower model.replicas, or name the GPUs of each in model.gpus.",
        )
    return [named[number * needed : (number + 1) * needed] for number in range(replicas)]


plugin = VLLMServerBackend
