"""The call stack between a run's workers and a backend, from the top down.

The layers are the cache with single-flight (`calls`), retries and the circuit breaker (`circuit`),
the limits (`concurrency`, with `rate_limits`), `claims`, `budget`, `time_limit` and the backend.
All layers pass on the same `Request`. The cache is `reply_cache`, which uses `database` and the
locks in `claims`. `harness.run.session` builds each model's stack.
"""
