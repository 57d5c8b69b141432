"""The servers and engines that this process owns, shared by the runs that want the same one.

The variants of a run file, and a judge that is also the model, want the same server: it is
started once, kept while a later run wants it, and ended with the last one. One that nobody uses
just now makes room for the next: two large models seldom fit on one machine's GPUs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar, cast


class Running(Protocol):
    """A server or engine that was started."""

    def ended(self) -> bool:
        """Whether it runs no more."""
        ...

    def end(self) -> None:
        """End it; waits until it is gone. Nothing where it has ended."""
        ...


R = TypeVar("R", bound=Running)


class OwnedServers:
    """Names (whatever tells one from the others) to what runs.

    command: what starts a vLLM server on this machine; empty for the one installed here.
    gpus: the GPUs that may be used, as CUDA names them; empty where all are hidden, None where
        nobody said.
    """

    def __init__(self, command: Sequence[str] = (), gpus: Sequence[str] | None = None) -> None:
        self.command = tuple(command)
        self.gpus = None if gpus is None else tuple(gpus)
        self._running: dict[str, Running] = {}
        self._wanted: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    def want(self, name: str) -> None:
        """Somebody will use a server: it is not ended before `give_up` was called as often."""
        self._wanted[name] += 1

    def use(self, name: str) -> None:
        """Somebody uses it from now on, until `give_up`."""
        self._used[name] += 1

    def running(self, name: str) -> Running | None:
        """The server, None where it has ended or was not started."""
        found = self._running.get(name)
        return None if found is None or found.ended() else found

    def renew(self, name: str, failed: Running | None, launch: Callable[[], R]) -> R:
        """The server of a name: the one that runs, or a new one. Blocks.

        Two that share a server see it die at the same moment: one of them starts it again, and
        the other is given what that one has started.

        failed: one that does not do any more, though it may run.
        launch: starts it.

        Raises: what `launch` raises.
        """
        with self._lock:
            found = self.running(name)
            if found is not None and found is not failed:
                return cast("R", found)
            self._end(name)
            for other in [other for other in self._running if not self._used[other]]:
                self._end(other)
            launched = launch()
            self._running[name] = launched
            return launched

    def _end(self, name: str) -> None:
        if (found := self._running.pop(name, None)) is not None:
            found.end()

    def give_up(self, name: str, *, used: bool) -> None:
        """Undo one `want`, and one `use`; ends the server that nobody wants any more. Blocks."""
        with self._lock:
            self._wanted[name] -= 1
            self._used[name] -= used
            if self._wanted[name] <= 0:
                self._end(name)

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            for name in list(self._running):
                self._end(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
