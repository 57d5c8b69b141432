"""One run, from its run file to its metrics: the only place that brings concrete parts together.

>>> run = load(Path("configs/quickstart.yaml"))[""]  # doctest: +SKIP
>>> asyncio.run(execute(prepare(run, "quickstart", Settings()))).ended  # doctest: +SKIP
'finished'

The way of a sample: `job.prepare` checks the run file and builds the parts, `job.execute` opens a
session (`session`: lock, cache, budget, call stacks) and hands the owed samples (`plan`) to the
worker pool (`pool`); `samples` takes each through its rounds and writes the lines.
"""

from harness.run.assessment import rescored
from harness.run.dry_run import Bounds, DryRun, dry_run
from harness.run.job import FileVariant, Job, Result, execute, prepare
from harness.run.metrics import measure, measured, report_on, variant_of
from harness.run.models import Resources, build_task
from harness.run.pool import Listener, Tally
from harness.run.reply_cache import replies_path

__all__ = [
    "Bounds",
    "DryRun",
    "FileVariant",
    "Job",
    "Listener",
    "Resources",
    "Result",
    "Tally",
    "build_task",
    "dry_run",
    "execute",
    "measure",
    "measured",
    "prepare",
    "replies_path",
    "report_on",
    "rescored",
    "variant_of",
]
