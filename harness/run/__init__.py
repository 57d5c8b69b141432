"""The only place that names concrete parts together: from a run file to a finished run.

>>> run = load(Path("configs/quickstart.yaml"))[""]  # doctest: +SKIP
>>> asyncio.run(execute(prepare(run, "quickstart", Settings()))).ended  # doctest: +SKIP
'finished'
"""

from harness.backends._processes import OwnedServers
from harness.run.foreseeing import foresee_job
from harness.run.job import (
    Job,
    Result,
    Watch,
    execute,
    prepare,
    replies_path,
)
from harness.run.measuring import measure, measured
from harness.run.parts import Rates, build_task, owned_servers

__all__ = [
    "Job",
    "OwnedServers",
    "Rates",
    "Result",
    "Watch",
    "build_task",
    "execute",
    "foresee_job",
    "measure",
    "measured",
    "owned_servers",
    "prepare",
    "replies_path",
]
