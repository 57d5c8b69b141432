"""Asynchronous, multi-provider evaluation of instruction following and constrained generation.

A run passes through these modules, in this order:

1. `harness.cli.run` calls `load`, `prepare` and `execute`, which are public.
2. `harness.config` reads a run file and the environment (`load`).
3. `harness.run` builds the run's parts (`prepare`): a task (`harness.tasks`) with its data
   (`harness.datasets`) and a backend (`harness.backends`).
4. `harness.run` streams the unfinished samples to workers (`execute`); each sample's rounds go
   through `harness.calls` (cache, retry, concurrency, budget) to the backend.
5. The task scores each reply with `harness.scoring`; `harness.store` appends it to the run.
6. `harness.analysis` measures the run; `harness.report` shows it.

The docstrings of `harness.run`, `harness.calls` and `harness.store` list their modules;
`harness.records` defines the data passed between them.

From Python:

>>> import asyncio, harness
>>> run = harness.load("configs/quickstart.yaml")[""]  # doctest: +SKIP
>>> job = harness.prepare(run, "quickstart", harness.Settings())  # doctest: +SKIP
>>> asyncio.run(harness.execute(job)).metrics.overall.pass_rate  # doctest: +SKIP
0.8326923076923077
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.analysis.summary import measure
    from harness.config.loading import load
    from harness.config.settings import Settings
    from harness.run.job import execute, prepare

    __version__: str

__all__ = ["Settings", "__version__", "execute", "load", "measure", "prepare"]

_HOMES = {
    "load": "harness.config.loading",
    "Settings": "harness.config.settings",
    "prepare": "harness.run.job",
    "execute": "harness.run.job",
    "measure": "harness.analysis.summary",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import harness`` stays instant."""
    if name == "__version__":
        from importlib.metadata import version

        return version("harness")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
