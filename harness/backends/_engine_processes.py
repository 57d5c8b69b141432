"""The processes that vLLM's engine works in: none of them outlives the harness, or the engine.

vLLM begins them while it loads, by `multiprocessing`, and tells nobody. So they are looked for,
and told to a guard (`_orphan_guard`), which kills them should the harness be killed, be it in the
middle of loading. That takes minutes, in which vLLM cannot be told to stop: it gives up when its
processes are killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

from harness.backends._orphan_guard import kill
from harness.errors import FatalCallError

STEP_S = 0.05
"""Between two looks: what is begun less than that before a kill -9 may be left behind."""


class EngineProcesses:
    """Those of one engine; none yet."""

    def __init__(self) -> None:
        self._others: set[BaseProcess] = set()
        self._told: set[BaseProcess] = set()
        self._off = threading.Event()
        self._complete = threading.Event()
        self._guard = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", str(Path(__file__).with_name("_orphan_guard.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """What this process begins meanwhile, be it by another thread, is taken for the engine's.

        Raises: FatalCallError where it was called off already.
        """
        self.check()
        self._others = set(multiprocessing.active_children())
        watch = threading.Thread(target=self._look_on, name="vllm-processes", daemon=True)
        watch.start()
        try:
            yield
        finally:
            self._complete.set()
            watch.join()
            self._look()

    def check(self) -> None:
        """Nothing where the engine is still wanted.

        Raises: FatalCallError where it was called off.
        """
        if self._off.is_set():
            raise FatalCallError("The loading of the model was called off.")

    def call_off(self) -> None:
        """Kill those that are begun until vLLM gives up."""
        self._off.set()

    def end(self) -> None:
        """Kill what is left of them, and let the guard go."""
        kill(self._living())
        self._guard.kill()
        self._guard.communicate()

    def _look_on(self) -> None:
        while not self._complete.wait(STEP_S):
            self._look()
            if self._off.is_set():
                kill(self._living())

    def _look(self) -> None:
        """Tell the guard who is new."""
        assert self._guard.stdin is not None
        for process in set(multiprocessing.active_children()) - self._others - self._told:
            self._told.add(process)
            with contextlib.suppress(OSError):  # the guard was killed
                self._guard.stdin.write(b"%d\n" % (process.pid or 0))
                self._guard.stdin.flush()

    def _living(self) -> list[int]:
        left = self._told & set(multiprocessing.active_children())
        return [process.pid for process in left if process.pid]
