"""The call stack between a run's workers and a backend, from the top down.

The layers are the cache with single-flight (`calls`, by `keys`), `rejections`, batches
(`batch_lane`, with `batch_jobs`), calls for several samples (`joint_draws`), the provider's prompt
cache (`prompt_cache`), retries and the circuit breaker (`circuit`), the backend's `startup`, the
limits (`concurrency`, with `rate_limits` and `sliding_window`), `claimed_calls`, `budget`,
`time_limit`, `code_errors` and the backend. All layers pass on a `Request`, and share the types in
`signals`. The cache is `reply_cache`, which uses `database`, `background` and the locks in
`claims`, or a team's cache in PostgreSQL (`team`). `batch_ledger` records batches.
`harness.engine.call_stack` builds each model's stack.
"""
