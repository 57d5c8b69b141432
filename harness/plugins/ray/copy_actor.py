"""The actor that holds a copy of a backend in a process of a Ray cluster.

The process that runs the evaluation is the actor's client. It submits requests in groups and
collects the answers that are ready, so that small answers share a message. The client turns the
class into an actor, so that importing this module does not require Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import harness
from harness.backends import OwnedServers
from harness.config.settings import Settings, set_variables
from harness.errors import (
    ConfigError,
    FatalCallError,
    HarnessError,
    SecretMissing,
    TransientError,
    import_extra,
)
from harness.execution import set_code_permission
from harness.plugin_loader import kind
from harness.ports import Backend
from harness.records import Reply, Request

POLL_S = 1.0  # maximum seconds until a collection returns, which is a sign of life

_submission: ContextVar[Submission] = ContextVar("_submission")


class Submission(NamedTuple):
    """A request and its number or, without a request, the number of a call to cancel.

    ``answers`` has the results of the functions ``gold``, ``wrong`` and ``reply``, which the actor
    cannot call because it does not have the task.
    """

    number: int
    request: Request | None = None
    answers: Mapping[str, str | None] = {}


class Answered(NamedTuple):
    """A reply or an exception. ``start`` is the number of the last start of a backend that died."""

    number: int
    reply: Reply | None
    error: BaseException | None = None
    start: int | None = None


Collected = tuple[bool, HarnessError | None, list[Answered]]
"""Whether a backend is ready, why it could not be started again, and what was answered."""


@dataclass(frozen=True)
class CopySpec:
    """The parts from which an actor builds its backend.

    Attributes:
        folder: The client's current folder, from which relative paths are resolved.
        files: The sources of a plug-in from a Python file, by name, the plug-in's file first.
        plugin: The pickled class of a plug-in that the client has registered.
        secrets: The values of the secrets that the backend has asked for, by variable.
        variables: Environment variables to set.
    """

    backend: str
    options: Mapping[str, Any]
    given: Mapping[str, Any]
    answers: Sequence[str]
    folder: str
    files: Mapping[str, str] = field(default_factory=dict)
    plugin: bytes = b""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @set_code_permission("allowed")
    def build(self, logs: Path) -> Backend:
        """Build the backend as any plug-in is built, with log files in the folder ``logs``.

        This sets the process's environment variables and current folder.
        """

        def secret(name: str) -> str:
            if name not in self.secrets:
                remedy = f"Add it to model.placement.env: [{name}]."
                raise SecretMissing(f"The copies of the model do not have {name}.", remedy)
            return self.secrets[name]

        set_variables(self.variables)
        if Path(self.folder).is_dir():  # on a file system that the machines share
            os.chdir(self.folder)
        settings = Settings()
        supplied = {
            **self.given,
            **{name: _answer(name) for name in self.answers},
            "secret": secret,
            "servers": OwnedServers(),
            "logs": logs,
            "cache_dir": settings.cache_dir,
        }
        name = self.backend
        if self.plugin:
            plugin: Callable[..., Backend]
            plugin, arguments = pickle.loads(self.plugin)  # noqa: S301 (from the client)
            return plugin(**self.options, **{key: supplied[key] for key in arguments})
        for file, source in self.files.items():
            (logs / file).parent.mkdir(parents=True, exist_ok=True)
            (logs / file).write_text(source, encoding="utf-8")
        if self.files:
            name = str(logs / next(iter(self.files)))
        backend: Backend = kind("backends").build(name, self.options, **supplied)
        return backend


class CopyFacts(NamedTuple):
    """Facts that an actor reports about itself once its backend has started."""

    endpoint: str
    node: str  # Ray's id of the machine
    host: str
    pid: int


class BackendActor:
    """An actor that holds a backend and answers the requests of its clients."""

    def __init__(self) -> None:
        self._backend: Backend | None = None
        self._starts = 0
        self._starting: asyncio.Task[None] | None = None
        self._boxes: dict[str, _Box] = {}

    async def open(self, version: str, spec: bytes) -> bytes:
        """Build and start the backend. Return `CopyFacts` or a HarnessError, pickled."""
        ray = import_extra("ray", "ray")
        host = platform.node()
        node = ray.get_runtime_context().get_node_id()
        try:
            if version != harness.__version__:
                raise ConfigError(
                    f"The harness is {harness.__version__} there, and {version} here.",
                    "Install the same version on all machines of the cluster.",
                )
            if self._backend is None:
                logs = Path(tempfile.mkdtemp(prefix="harness-copy-"))
                build = pickle.loads(spec).build  # noqa: S301 (from the client)
                self._backend = await asyncio.to_thread(build, logs)
            assert self._backend is not None
            await self._ready()
        except HarnessError as error:
            error.message = f"On {host}: {error.message}"
            return pickle.dumps(error)
        except Exception as error:
            message = f"On {host}, the model cannot be started: {type(error).__name__}: {error}"
            return pickle.dumps(FatalCallError(message))
        return pickle.dumps(CopyFacts(self._backend.endpoint, node, host, os.getpid()))

    async def submit(self, client: str, submissions: bytes) -> None:
        """Begin to answer requests, or cancel calls. `collect` returns the answers."""
        box = self._boxes.setdefault(client, _Box())
        for submission in pickle.loads(submissions):  # noqa: S301 (from the client)
            if submission.request is None:
                if (task := box.tasks.get(submission.number)) is not None:
                    task.cancel()
            elif submission.number not in box.tasks:
                task = asyncio.create_task(self._work(submission, box))
                box.tasks[submission.number] = task

    async def collect(self, client: str, batch: int) -> bytes:
        """Return whether the backend is ready, why it cannot start, and new answers, pickled.

        It waits at most `POLL_S` seconds. ``batch`` counts the client's collections: a repeated
        number gets the same answers again, in case they were lost.
        """
        box = self._boxes.setdefault(client, _Box())
        if batch != box.batch:
            if not box.done and self._is_ready() == box.ready:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await box.filled.wait()
            box.filled.clear()
            box.batch = batch
            box.sent = box.done
            box.done = []
        box.ready = self._is_ready()
        return pickle.dumps((box.ready, self._failure(), box.sent), protocol=5)

    async def leave(self, client: str) -> None:
        for task in self._boxes.pop(client, _Box()).tasks.values():
            task.cancel()

    async def aclose(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        if self._backend is not None:
            await self._backend.aclose()

    def _is_ready(self) -> bool:
        return self._backend is None or self._backend.ready

    def _failure(self) -> HarnessError | None:
        if self._starting is None or not self._starting.done() or self._is_ready():
            return None
        error = self._starting.exception()
        if error is None or isinstance(error, HarnessError):
            return error
        return FatalCallError(f"It cannot be started: {type(error).__name__}: {error}")

    async def _ready(self) -> None:
        if self._is_ready():
            return
        if self._starting is None or self._starting.done():
            assert self._backend is not None
            self._starts += 1
            self._starting = asyncio.create_task(self._backend.start(lambda _: None))
        await asyncio.shield(self._starting)

    async def _work(self, submission: Submission, box: _Box) -> None:
        _submission.set(submission)
        assert submission.request is not None
        assert self._backend is not None
        start: int | None = None
        reply: Reply | None = None
        error: Exception | None = None
        try:
            await self._ready()
            began = self._starts
            try:
                reply = await self._backend.generate(submission.request)
            except TransientError as lost:
                if lost.kind in ("connection_lost", "unreachable") and not self._is_ready():
                    start = began
                    self._restart()
                raise
        except asyncio.CancelledError:
            box.tasks.pop(submission.number, None)
            raise
        except Exception as raised:
            error = _portable(raised)
        box.tasks.pop(submission.number, None)
        box.done.append(Answered(submission.number, reply, error, start))
        box.filled.set()

    def _restart(self) -> None:
        if self._starting is None or self._starting.done():
            task = asyncio.create_task(self._ready())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())


class _Box:
    """A client's calls, and the answers that the client has not collected yet."""

    def __init__(self) -> None:
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.done: list[Answered] = []
        self.filled = asyncio.Event()
        self.sent: list[Answered] = []
        self.batch = -1
        self.ready = True  # what the client was last told of the backend


def _answer(name: str) -> Callable[..., str | None]:
    """Return the function ``name``, such as ``gold``, for the current request."""

    def answer(about: str | Request, *_: object) -> str | None:
        submission = _submission.get()
        instance = submission.request.origin.instance if submission.request else ""
        if about not in (instance, submission.request):
            raise LookupError(f"{name} of {about!r}: a copy knows only that of the request's own")
        return submission.answers[name]

    return answer


def _portable(error: Exception) -> Exception:
    """Return an error in a form that another process can load."""
    if type(error).__module__ in ("builtins", "harness.errors"):
        with contextlib.suppress(Exception):
            pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
            return error
    return RuntimeError(f"{type(error).__name__}: {error}")
