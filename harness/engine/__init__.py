"""One run, from its run file to its metrics: the layer that connects tasks, backends and store.

`run_files` reads the run file, and `resolving` fills in what it names. `preparation` checks it
(with `changes` since an earlier session) and builds the parts of a `job` (`models` and `judges`).
`executor` executes the jobs of a command: it opens a `session` (lock, budget, worker pool, the
cache of replies, and each model's `call_stack`, which the `infrastructure` of plug-ins changes) and
passes the unfinished samples (`plan`) to the pool, while `progress` is counted.
`samples` takes each sample through its rounds: the messages (in conversations `turns`), the call
(whose reply loses its `reasoning`), the reply's `assessment` by rules and judges (`judging`), and
the user's next turn. The `recorder` writes the attempt's line to ``attempts.jsonl``.

Dry runs and scoring again are steps that plug-ins bring (`job`).
"""
