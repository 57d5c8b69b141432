"""Asynchronous, multi-provider evaluation of instruction following and constrained generation.

A run passes through these modules, in this order:

1. `harness.cli.run` or `harness.api` calls the functions of `harness.engine`.
2. `read_runs` reads a run file, its overrides and variants with `harness.config`.
3. `prepare_all` builds each run's task and models, and reads the data (`harness.datasets`). A
   model's backend (`harness.backends`) reads its key from the environment. Tasks and other parts
   may come from `harness.plugins`.
4. `execute_all` executes the runs: it streams the unfinished samples to workers. Each call goes
   through `harness.calls` (cache, retry, concurrency, budget) to the backend.
5. The task scores each reply with `harness.scoring`, and `harness.store` appends the
   attempt to the run.
6. `harness.analysis` measures the run, and `harness.report` shows it. Meanwhile, `harness.terminal`
   prints the progress.

The docstrings of `harness.engine`, `harness.calls` and `harness.store` list their modules.
`harness.records` defines the data passed between them.

From Python:

>>> import harness
>>> harness.run("quickstart").metrics.pass_rate  # doctest: +SKIP
0.8326923076923077

docs/python.md describes the functions that this module exports.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api import (
        arun,
        arun_all,
        backend,
        checker,
        judge,
        open_run,
        run,
        run_all,
        task,
    )
    from harness.declarations import PluginMember

    __version__: str

__all__ = [
    "__version__",
    "arun",
    "arun_all",
    "backend",
    "checker",
    "judge",
    "open_run",
    "run",
    "run_all",
    "task",
]


DISTRIBUTION = "harness-instruct"
"""The name under which pip installs the harness. On PyPI, ``harness`` is another project."""


def _plugin_functions() -> Mapping[str, "list[PluginMember]"]:
    from harness.declarations import declared_members  # `import harness` stays fast

    return declared_members("api")


def __dir__() -> list[str]:
    return [*__all__, *_plugin_functions()]


def __getattr__(name: str) -> Any:
    """Import a public object on access, which makes ``import harness`` faster."""
    if name == "__version__":
        from importlib.metadata import version

        return version(DISTRIBUTION)
    if name in __all__:
        return getattr(import_module("harness.api"), name)
    if not name.startswith("_"):
        for member in _plugin_functions().get(name, ()):
            return member.load()
    if name == "simple_evaluate":  # lm-eval's function
        raise AttributeError("module 'harness' has no 'simple_evaluate': use harness.evaluate")
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
