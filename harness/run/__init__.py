"""One run, from its run file to its metrics: the only place that brings concrete parts together.

>>> run = load(Path("configs/quickstart.yaml"))[""]  # doctest: +SKIP
>>> asyncio.run(execute(prepare(run, "quickstart", Settings()))).ended  # doctest: +SKIP
'finished'

The way of a sample: `job.prepare` checks the run file and builds the parts, `job.execute` opens a
session (`session`: lock, cache, budget, call stacks) and hands the owed samples (`plan`) to the
worker pool (`pool`); `samples` takes each through its rounds and writes the lines.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.run.assessment import rescored
    from harness.run.dry_run import DryRun, EstimateRange, estimate_run
    from harness.run.job import FileVariant, Job, Result, execute, prepare
    from harness.run.metrics import measure, measured, report_on, variant_of
    from harness.run.models import Resources, build_task
    from harness.run.pool import Listener, Tally
    from harness.run.reply_cache import replies_path

_MODULES = {
    "rescored": "assessment",
    "EstimateRange": "dry_run",
    "DryRun": "dry_run",
    "estimate_run": "dry_run",
    "FileVariant": "job",
    "Job": "job",
    "Result": "job",
    "execute": "job",
    "prepare": "job",
    "measure": "metrics",
    "measured": "metrics",
    "report_on": "metrics",
    "variant_of": "metrics",
    "Resources": "models",
    "build_task": "models",
    "Listener": "pool",
    "Tally": "pool",
    "replies_path": "reply_cache",
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
    "measure",
    "measured",
    "prepare",
    "replies_path",
    "report_on",
    "rescored",
    "variant_of",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for: a command that only reads runs does not load what makes them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
