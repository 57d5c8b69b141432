"""A backend whose copies run on the machines of a Ray cluster."""

import asyncio
import importlib.util
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from typing_extensions import override

from harness.backends import DeadlyPrompts, OwnedServers
from harness.config.sections import PlacementSection
from harness.config.settings import required_variables
from harness.engine.infrastructure import Cluster
from harness.errors import ConfigError, FatalCallError, HarnessError, import_extra
from harness.plugin_interface import supplied_parameters
from harness.plugin_loader import kind
from harness.plugins.ray.connection import check
from harness.plugins.ray.copies import LOGS, PROBE_S, Copies, CopyClient, CopyLost, Lost
from harness.plugins.ray.copy_actor import CopySpec
from harness.ports import (
    Backend,
)
from harness.records import Decoding, Reply, Request

PLAIN = ("model", "concurrency", "timeout_s", "reply_mb")  # supplied to the copies as they are
ANSWERS = ("gold", "wrong", "reply")  # functions whose results the copies get with each request
GONE_S = 40.0  # seconds without the cluster's head; Ray ends the process after 60
GONE = f"The Ray cluster is gone: its head has not answered for {GONE_S:g} s."
REPEAT = "All answers so far are saved. When the cluster is back, repeat the command."
RESTARTS = 3  # maximum number of times in a row that a copy is replaced without having answered


class PlacedBackend(Backend):
    """A backend that starts copies of another backend on a cluster, and passes requests on to them.

    If a copy dies or hangs, the others make its calls again, and a new copy replaces it.

    Args:
        inner: A backend like the copies. It is not started, and only describes them.
        spec: The specification of a copy.
        placement: The section ``placement`` of the model.
        answers: Returns, for a request, the data that a copy cannot have, by name.
        servers: Shares the copies with other runs of this process.
    """

    def __init__(
        self,
        inner: Backend,
        spec: CopySpec,
        placement: PlacementSection,
        answers: Callable[[Request], Mapping[str, str | None]],
        servers: OwnedServers,
    ) -> None:
        self.features = inner.features
        self.endpoint = inner.endpoint
        self.cacheable = inner.cacheable
        self.shares_replies = inner.shares_replies
        self._inner = inner
        self._spec = spec
        self._placement = placement
        self._answers = answers
        self._seats: int = spec.given["concurrency"]  # maximum calls in flight of each copy
        if inner.preferred_concurrency is not None:
            self._seats = inner.preferred_concurrency
        self.preferred_concurrency = self._seats * placement.replicas
        self._servers = servers
        name = (spec.backend, spec.options, spec.given.get("model"), placement.model_dump())
        self._lease = servers.lease(f"copies {name!r}")
        self._name = uuid4().hex  # as a client of the copies
        self._copies: Copies | None = None
        self._tending: list[asyncio.Task[None]] = []
        self._clients: list[CopyClient] = []  # of the copies that have started
        self._begun = False  # whether any copy has ever started
        self._given_up: list[HarnessError] = []  # for each slot that stays empty, why
        self._changed = asyncio.Event()
        self._prompts = DeadlyPrompts("The model")
        self._on_status: Callable[[str], None] = lambda _: None

    @override
    def check_decoding(self, name: str, decoding: Decoding) -> None:
        self._inner.check_decoding(name, decoding)

    @override
    def fingerprint(self) -> Mapping[str, str]:
        return self._inner.fingerprint()

    @override
    def key_part(self, request: Request) -> str:
        return self._inner.key_part(request)

    @property
    @override
    def capacity(self) -> int:
        """The number of calls that can be in flight now."""
        return self._seats * sum(client.open for client in self._clients)

    @property
    @override
    def ready(self) -> bool:
        return any(client.ready for client in self._clients)

    @override
    async def start(self, on_status: Callable[[str], None]) -> None:
        """Start the copies, and wait until one of them can answer.

        Raises:
            FatalCallError: If the cluster cannot be reached, or no copy starts.
        """
        self._on_status = on_status
        if self._copies is None or self._copies.has_ended():
            await self._leave()

            def launch() -> Copies:
                return Copies(self._spec, self._placement)

            renew = self._servers.acquire
            copies = await asyncio.to_thread(renew, self._lease, self._copies, launch)
            self._copies = copies
            slots = range(self._placement.replicas)
            self._tending = [asyncio.create_task(self._tend(copies, slot)) for slot in slots]
            self._tending.append(asyncio.create_task(self._watch(copies)))
        self._update()
        while not self.ready:
            self._raise_failure()
            await self._changed.wait()

    async def generate(self, request: Request) -> Reply:
        """Return the reply of a copy, or of another copy if the first dies or hangs.

        Raises:
            RequestRejected: If the prompt has been abandoned (`DeadlyPrompts`).
            FatalCallError: If all copies have been given up.
        """
        while True:
            alone = self._prompts.must_send_alone(request)
            while (copy := self._least_loaded()) is None:
                self._raise_failure()
                await self._changed.wait()
            if alone:
                await self._reserve(copy)
            try:
                self._prompts.must_send_alone(request)  # it may have been abandoned meanwhile
                answered = await copy.ask(request, self._answers(request))
            finally:
                if alone:
                    self._release(copy)
            if isinstance(answered, Lost):
                if answered.life:
                    self._prompts.record_death(request, answered.life, alone=alone)
                continue
            self._prompts.record_answer(request)
            return answered

    @override
    async def aclose(self) -> None:
        """Leave the copies, which end when no run of this process uses them."""
        await self._leave()
        await asyncio.to_thread(self._servers.release, self._lease)

    async def _leave(self) -> None:
        for task in self._tending:
            task.cancel()
        await asyncio.gather(*self._tending, return_exceptions=True)
        self._tending = []
        self._given_up = []

    def _least_loaded(self) -> CopyClient | None:
        best = None
        fewest = 0
        for copy in self._clients:
            if copy.open and (best is None or copy.load < fewest):
                best = copy
                fewest = copy.load
        return best

    async def _reserve(self, copy: CopyClient) -> None:
        """Keep other calls from a copy, and wait until it has no calls or is lost."""
        copy.reserved = True
        try:
            while copy.load and copy in self._clients:
                await copy.idle.wait()
        except asyncio.CancelledError:
            self._release(copy)
            raise

    def _release(self, copy: CopyClient) -> None:
        copy.reserved = False
        self._update()

    def _raise_failure(self) -> None:
        if len(self._given_up) == self._placement.replicas:
            last = self._given_up[-1]
            raise FatalCallError(last.message, last.remedy)

    def _update(self) -> None:
        """Wake up calls that wait for a copy, and report how many copies work."""
        self._changed.set()
        self._changed = asyncio.Event()
        working = sum(client.ready for client in self._clients)
        replicas = self._placement.replicas
        self._begun = self._begun or working > 0
        status = f"{working} of {replicas} copies work" if working < replicas else ""
        if self._given_up:
            status += f"; {len(self._given_up)} given up: {self._given_up[-1].message}"
        self._on_status(status)

    async def _watch(self, copies: Copies) -> None:
        """End all calls if the cluster is gone. Ray would end this process, after a minute."""
        answered = time.monotonic()
        while time.monotonic() - answered < GONE_S:
            await asyncio.sleep(PROBE_S)
            if await asyncio.to_thread(copies.head_answers):
                answered = time.monotonic()
        copies.lost = True
        self._given_up = [FatalCallError(GONE, REPEAT)] * self._placement.replicas
        for task in self._tending:
            if task is not asyncio.current_task():
                task.cancel()
        self._update()

    async def _tend(self, copies: Copies, slot: int) -> None:
        """Keep a copy working in a slot: replace it when it is lost, or give the slot up."""
        try:
            await self._tend_copies(copies, slot)
        except Exception as error:  # without this, calls would wait for the slot forever
            message = f"{type(error).__name__}: {error}"
            self._given_up.append(CopyLost(f"A copy of the model cannot be kept: {message}", LOGS))
            self._update()

    async def _tend_copies(self, copies: Copies, slot: int) -> None:
        in_vain = 0
        while True:
            copy = copies.current(slot)
            client = CopyClient(
                copies.ray, copy, self._name, self._placement.hang_s, self._clients, self._update
            )
            self._clients.append(client)
            machine_lost = False  # with its machine: no call is to blame
            try:
                problem = await client.work()
                if client.facts is not None:
                    machine_lost = not await asyncio.to_thread(copies.node_lives, client.facts.node)
            finally:
                self._clients.remove(client)
                client.dismiss(blamed=not machine_lost)
            in_vain = 0 if client.answered or machine_lost else in_vain + 1
            hopeless = not self._begun and not isinstance(problem, CopyLost)
            if in_vain > RESTARTS or hopeless:
                self._given_up.append(problem)
                await asyncio.to_thread(copies.kill, copy)
                self._update()
                return
            await asyncio.to_thread(copies.replace, copy)
            self._update()


def placed(
    name: str, options: Mapping[str, Any], placement: PlacementSection, supplied: Mapping[str, Any]
) -> PlacedBackend:
    """Build a placed backend from its ``options`` and the arguments ``supplied`` by the harness."""
    if importlib.util.find_spec("ray") is None:
        import_extra("ray", "ray")
    backends = kind("backends")
    accepted = supplied_parameters(backends.load(name))
    if {"read", "on_allowances"} & accepted.keys() or options.get("base_url"):
        raise ConfigError(
            f"model.placement is for models that compute; {name!r} asks a server or a recording.",
            "Remove it: set model.base_url to the address of a server that is there already.",
        )
    secrets: dict[str, str] = {}

    def secret(variable: str) -> str:
        secrets[variable] = supplied["secret"](variable)
        return secrets[variable]

    inner: Backend = backends.build(name, options, **{**supplied, "secret": secret})
    answerable = [
        argument for argument in ANSWERS if argument in accepted and supplied[argument] is not None
    ]
    plugin = b""
    if name in backends.registered():  # in a program that the copies cannot import
        options = dict(backends.validate_options(name, options))
        dumps = import_extra("ray.cloudpickle", "ray").dumps
        plugin = dumps((backends.load(name), sorted(accepted)))
    code = backends.files(name)
    spec = CopySpec(
        name,
        options,
        {argument: supplied[argument] for argument in PLAIN}
        | {argument: None for argument in ANSWERS if argument not in answerable},
        answerable,
        folder=str(Path.cwd()),
        files={
            str(file.relative_to(code[0].parent)): file.read_text("utf-8")
            for file in code
            if file.is_relative_to(code[0].parent)
        },
        plugin=plugin,
        secrets=secrets,
        variables=required_variables(placement.env),
    )

    def answers(request: Request) -> Mapping[str, str | None]:
        origin = request.origin
        answers_before = [
            message.content for message in request.messages if message.role == "assistant"
        ]
        about = (origin.instance, answers_before) if origin.turns else (origin.instance,)
        return {
            argument: supplied[argument](*(about if argument != "reply" else (request,)))
            for argument in answerable
        }

    return PlacedBackend(inner, spec, placement, answers, supplied["servers"])


RAY = Cluster(place=placed, check=check)
"""A cluster in ``RAY_ADDRESS`` or ``placement.address``, or started on this machine."""
