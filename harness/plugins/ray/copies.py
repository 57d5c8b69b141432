"""Starts, replaces and ends the copies of a model on a Ray cluster; the client of one copy."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import harness
from harness.config.sections import PlacementSection
from harness.errors import FatalCallError, HarnessError, import_extra
from harness.plugins.ray.connection import connect
from harness.plugins.ray.copy_actor import (
    Answered,
    BackendActor,
    Collected,
    CopyFacts,
    CopySpec,
    Submission,
)
from harness.records import Reply, Request
from harness.wording import to_one_line

END_S = 20.0  # seconds that the copies get to close their backends
PROBE_S = 5.0  # time limit of a probe
OPEN_CALLS = 100  # maximum concurrent calls of a copy's methods, over all of its clients
_lives = itertools.count()  # numbers of copies, unique within this process


@dataclass(eq=False, frozen=True)
class Copy:
    """A copy of a model: its actor, and the result of the actor's method `open`."""

    life: int  # unique within this process
    slot: int
    actor: Any
    opened: Any
    group: Any = None  # its placement group, if it has several bundles


class Copies:
    """The copies of a model on a Ray cluster, one in each slot. May be used from any thread.

    They are kept for later runs of this process with the same model and placement.

    Args:
        spec: The specification of a copy. It is sent to each copy in a message, so that its secrets
            do not reach Ray's tables, logs or dashboard.
        placement: The section ``placement`` of the model.
    """

    def __init__(self, spec: CopySpec, placement: PlacementSection) -> None:
        self.ray = connect(placement.address)
        self._spec = pickle.dumps(spec)
        self._placement = placement
        self._lock = threading.Lock()
        self._over = False
        self.lost = False  # whether the whole cluster is gone
        self._head: str = self.ray.get_runtime_context().gcs_address
        self._copies = [self._start(slot) for slot in range(placement.replicas)]

    def current(self, slot: int) -> Copy:
        return self._copies[slot]

    def replace(self, copy: Copy) -> None:
        """Kill a copy and start another in its slot, unless it was replaced or `end` was called."""
        with self._lock:
            if self._copies[copy.slot] is copy and not self._over:
                self.kill(copy)
                self._copies[copy.slot] = self._start(copy.slot)

    def node_lives(self, node: str) -> bool:
        return any(state["NodeID"] == node and state["Alive"] for state in self.ray.nodes())

    def has_ended(self) -> bool:
        """Return whether this process has lost its connection to the cluster."""
        return self.lost or not self.ray.is_initialized()

    def head_answers(self) -> bool:
        """Return whether the cluster's head accepts connections."""
        host, _, port = self._head.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PROBE_S).close()
        except OSError:
            return False
        return True

    def end(self) -> None:
        if self.lost:
            return
        with self._lock, contextlib.suppress(Exception):  # the cluster may be gone
            self._over = True
            started = self.ray.wait(
                [copy.opened for copy in self._copies], num_returns=len(self._copies), timeout=0
            )[0]
            closing = [
                copy.actor.aclose.remote() for copy in self._copies if copy.opened in started
            ]
            if closing:
                self.ray.wait(closing, num_returns=len(closing), timeout=END_S)
            for copy in self._copies:
                self.kill(copy)

    def _start(self, slot: int) -> Copy:
        placement = self._placement
        group = None
        options: dict[str, Any] = {
            "num_cpus": placement.cpus,
            "num_gpus": placement.gpus,
            "resources": dict(placement.resources),
            "max_restarts": 0,
            "max_concurrency": OPEN_CALLS,
            "scheduling_strategy": "SPREAD",
        }
        if placement.memory_gb is not None:
            options["memory"] = int(placement.memory_gb * 1e9)
        if placement.bundles > 1:
            # The engine's own workers take the bundles' GPUs; the copy itself needs none.
            bundle: dict[str, float] = {
                "CPU": placement.cpus,
                "GPU": placement.gpus,
                **placement.resources,
            }
            bundle = {name: amount for name, amount in bundle.items() if amount}
            groups = import_extra("ray.util.placement_group", "ray")
            strategies = import_extra("ray.util.scheduling_strategies", "ray")
            group = groups.placement_group([bundle] * placement.bundles, strategy="PACK")
            options["scheduling_strategy"] = strategies.PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
            )
            options |= {"num_gpus": 0, "num_cpus": 0, "resources": {}}
        actor = self.ray.remote(BackendActor).options(**options).remote()
        opened = actor.open.remote(harness.__version__, self._spec)
        return Copy(next(_lives), slot, actor, opened, group)

    def kill(self, copy: Copy) -> None:
        """End a copy without closing its backend, and free its resources."""
        with contextlib.suppress(Exception):  # it may be dead, or the cluster gone
            self.ray.kill(copy.actor)
            if copy.group is not None:
                groups = import_extra("ray.util.placement_group", "ray")
                groups.remove_placement_group(copy.group)


GROUP = 64  # maximum number of requests in a message to a copy
PAUSE_S = 0.5  # between tries to reach a copy that may only be cut off

LOGS = "Ray's logs on its machine say more (/tmp/ray/session_latest/logs)."

_numbers = itertools.count()  # of calls, unique within this process


class CopyLost(FatalCallError):
    """A copy of a model has died or hangs."""


class Lost(NamedTuple):
    """The result of a call whose copy or engine dies.

    ``life`` is the life that has ended, or () if the call is not to blame.
    """

    life: tuple[int, ...]


class CopyClient:
    """A client of a copy, for one event loop.

    Args:
        ray: The module ``ray``, connected to the cluster.
        copy: The copy.
        name: The client's name in all copies.
        hang_s: Seconds without a sign of life, or without an answer while other copies answer,
            after which the copy is lost.
        others: The clients of all copies.
        changed: Called when the copy becomes ready, and when it is no longer ready.
    """

    def __init__(
        self,
        ray: Any,
        copy: Copy,
        name: str,
        hang_s: float,
        others: Sequence[CopyClient],
        changed: Callable[[], None],
    ) -> None:
        self._ray = ray
        self._copy = copy
        self._name = name
        self._hang_s = hang_s
        self._others = others
        self._changed = changed
        self.facts: CopyFacts | None = None
        self._calls: dict[int, asyncio.Future[Answered | Lost]] = {}
        self._unsent: list[Submission] = []
        self._wake = asyncio.Event()
        self._progressed = time.monotonic()  # when it last answered, or was idle
        self._lost = False
        self.ready = False
        self.reserved = False  # for a call that is sent alone
        self.answered = 0.0  # when it last answered (monotonic seconds), or 0
        self.idle = asyncio.Event()

    @property
    def open(self) -> bool:
        return self.ready and not self.reserved

    @property
    def load(self) -> int:
        return len(self._calls)

    async def ask(self, request: Request, answers: Mapping[str, str | None]) -> Reply | Lost:
        """Return the copy's reply, or `Lost` if the copy or its engine dies first.

        Raises:
            Exception: Any exception that the copy's backend has raised.
        """
        if self._lost:
            return Lost(())
        if not self._calls:
            self._progressed = time.monotonic()
            self.idle.clear()
        number = next(_numbers)
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        self._send(Submission(number, request, answers))
        try:
            answered: Answered | Lost = await future
        except asyncio.CancelledError:
            self._send(Submission(number))
            raise
        finally:
            del self._calls[number]
            if not self._calls:
                self.idle.set()
        if isinstance(answered, Lost):
            return answered
        if answered.start is not None:
            return Lost((self._copy.life, answered.start))
        if answered.error is not None:
            raise answered.error
        assert answered.reply is not None
        return answered.reply

    async def work(self) -> HarnessError:
        """Serve calls from the copy's start until it is lost. Return the reason."""
        tasks: list[asyncio.Task[HarnessError]] = []
        try:
            opened = pickle.loads(await self._copy.opened)  # noqa: S301 (from our own actor)
            if isinstance(opened, HarnessError):
                return opened
            self.facts = opened
            self._set_ready(True)
            tasks = [
                asyncio.create_task(exchange) for exchange in (self._sending(), self._receiving())
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        except self._ray.exceptions.RayError as error:
            message = to_one_line(str(error))
            return CopyLost(f"A copy of the model has died: {message}", LOGS)
        finally:
            self._lost = True
            self._set_ready(False)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._copy.actor.leave.remote(self._name)  # the copy may serve a later variant

    def dismiss(self, *, blamed: bool) -> None:
        """Tell the calls in flight that the copy is lost, and whether they may be to blame."""
        for future in self._calls.values():
            if not future.done():
                future.set_result(Lost((self._copy.life,) if blamed else ()))

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self._changed()

    def _send(self, submission: Submission) -> None:
        self._unsent.append(submission)
        self._wake.set()

    async def _sending(self) -> HarnessError:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while group := self._unsent[:GROUP]:
                del self._unsent[:GROUP]
                packed = pickle.dumps(group, protocol=5)
                await self._reached(self._copy.actor.submit, packed)

    async def _receiving(self) -> HarnessError:
        for batch in itertools.count():
            try:
                async with asyncio.timeout(self._hang_s):
                    packed = await self._reached(self._copy.actor.collect, batch)
            except TimeoutError:
                return CopyLost(f"A copy has not responded for {self._hang_s:g} s.", LOGS)
            collected: Collected = pickle.loads(packed)  # noqa: S301 (from our own actor)
            ready, failure, answers = collected
            if failure is not None:
                return failure
            now = time.monotonic()
            for answer in answers:
                future = self._calls.get(answer.number)
                if future is not None and not future.done():
                    future.set_result(answer)
                    self._progressed = self.answered = now
            self._set_ready(ready)
            if self._hangs(now):
                return CopyLost(
                    f"A copy has answered nothing for {self._hang_s:g} s, unlike others.", LOGS
                )
        raise AssertionError

    async def _reached(self, method: Any, argument: object) -> Any:
        """Return the result of a method of the copy, retrying until it can be reached."""
        while True:
            try:
                return await method.remote(self._name, argument)
            except self._ray.exceptions.ActorUnavailableError:
                await asyncio.sleep(PAUSE_S)

    def _hangs(self, now: float) -> bool:
        since = now - self._hang_s
        others = (client.answered for client in self._others if client is not self)
        return bool(self._calls) and self._progressed < since and max(others, default=0) > since
