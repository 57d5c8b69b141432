"""The call stack between a run's workers and a backend, from the top down.

The layers are the cache with single-flight (`calls`), batches (`batch_lane`), the provider's prompt
cache (`prompt_cache`), retries, the circuit breaker and the startup of local servers (`circuit`),
the limits (`concurrency`, with `rate_limits`), `claims`, `budget`, `time_limit` and the backend.
All layers pass on the same `Request`, and share the types in `signals`. The cache is `reply_cache`,
which uses `database`, `batches` and the locks in `claims`. `harness.run.session` builds each
model's stack.
"""
