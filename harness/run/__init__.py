"""One run, from its run file to its metrics: the layer that connects tasks, backends and store.

`job.prepare` checks the run file and builds the parts (`models`). `job.execute` opens a session
(`session`: lock, cache, budget, call stacks) and passes the unfinished samples (`plan`) to the
worker pool (`pool`). `samples` takes each sample through its rounds: the call, its assessment by
rules (`assessment`) and judges (`judging`), and its line in ``attempts.jsonl``.
"""

import sys

import harness

sys.modules[__name__].__class__ = harness.RunPackage
