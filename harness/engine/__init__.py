"""One run, from its run file to its metrics: the layer that connects tasks, backends and store.

`run_files` reads the run file, and `resolving` fills in what it names. `preparation` checks it
(with `changes` since an earlier session) and builds the parts of a `job` (`models`, `judges` and
the `other_runs` that they read). `executor` executes the jobs of a command: it opens a `session`
(lock, budget, worker pool, the cache of replies, and each model's `call_stack`, which the
`call_layers` of plug-ins change) and passes the unfinished samples (`plan`) to the pool, while
`heartbeat` writes the `progress` to ``status.json`` and `run_copies` finds the place for its copy.
`samples` takes each sample through its rounds: the messages (in conversations `turns`), the call,
the reply's assessment by rules (`assessment`, for long replies in `long_answers`) and judges
(`judging`), the user's `next_turn`, and the attempt's line in ``attempts.jsonl``, which
`observing` reports.

Other commands use `dry_run`, `rescoring`, and `task_answers` (the fields of the user's rows).
"""
