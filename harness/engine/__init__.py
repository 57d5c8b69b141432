"""One run, from its run file to its metrics: the layer that connects tasks, backends and store.

`run_files` reads the run file, and `resolving` fills in what it names. `preparation` checks it
(`checks`, and `changes` since an earlier session) and builds the parts of a `job` (`models`,
`shots`, `judges` and the `other_runs` that they read). `experiment` has the jobs of a command
executed: `executor` opens a `session` (lock, budget, the cache of `replies`, and each model's
`call_stack`) and passes the unfinished samples (`plan`) to the worker pool (`pool`), while
`heartbeat` writes the `progress` to ``status.json`` and `remote` copies the run to an object store.
`samples` takes each sample through its rounds: the messages (`paraphrase`; in conversations `turns`
and the `played_user`), the call, the reply's assessment by rules (`assessment`, for long replies in
`long_answers`) and judges (`judging`), and the attempt's line in ``attempts.jsonl``, which
`observing` reports.

Other commands use `dry_run` (with `call_bounds`), `rescoring` (with `cluster_rescoring`),
`merging`, `later_judge`, `curation` (data from chats), `suite` and `reproduction` (run files for
several benchmarks, and for a study), and `task_answers` (a run's task as a source of facts, for
reports).
"""
