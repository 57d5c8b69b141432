"""One run, from its run file to its metrics: the only place that combines the concrete parts.

>>> run = load(Path("configs/quickstart.yaml"))[""]  # doctest: +SKIP
>>> asyncio.run(execute(prepare(run, "quickstart", Settings()))).ended  # doctest: +SKIP
'finished'

The path of a sample: `job.prepare` checks the run file and builds the parts, `job.execute` opens a
session (`session`: lock, cache, budget, call stacks) and passes the owed samples (`plan`) to the
worker pool (`pool`); `samples` takes each through its rounds and writes the lines.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.run.dry_run import DryRun, EstimateRange, estimate_run
    from harness.run.job import FileVariant, Job, Result, execute, prepare
    from harness.run.models import Resources, build_task
    from harness.run.pool import Listener, Tally
    from harness.run.reply_cache import replies_path
    from harness.run.rescoring import rescored

_EXPORTS = {
    "rescoring": ("rescored",),
    "dry_run": ("DryRun", "EstimateRange", "estimate_run"),
    "job": ("FileVariant", "Job", "Result", "execute", "prepare"),
    "models": ("Resources", "build_task"),
    "pool": ("Listener", "Tally"),
    "reply_cache": ("replies_path",),
}

__all__ = [
    "DryRun",
    "EstimateRange",
    "FileVariant",
    "Job",
    "Listener",
    "Resources",
    "Result",
    "Tally",
    "build_task",
    "estimate_run",
    "execute",
    "prepare",
    "replies_path",
    "rescored",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: a command that only reads runs does not load what makes
    them.
    """
    for module, names in _EXPORTS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
