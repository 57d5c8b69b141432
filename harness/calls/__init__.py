"""The call stack between a run's workers and a backend, from the top down.

The layers are `calls` (cache and single-flight), `retry`, `circuit` (outages, start of local
servers), `concurrency` (with `rate_limits`), the claim (also in `calls`), `budget`, the time limit
(`concurrency.Timed`) and the backend. All pass on the same `Request`. The cache is `reply_cache`,
which uses `database` and `claims`. `harness.run.session` builds each model's stack.
"""
