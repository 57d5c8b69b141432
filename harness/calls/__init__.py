"""The call stack between a run's workers and a backend, from the top down.

The layers are the cache with single-flight (`calls`, by `keys`), `rejections`, calls for several
samples (`joint_draws`), the provider's prompt cache (`prompt_cache`), retries and the circuit
breaker (`circuit`), the backend's start (`backend_layers`), the limits (`concurrency`, with
`rate_limits`), the claim on the call (`calls`), `budget`, the time limit and errors of the
backend's code (`backend_layers`), and the backend. All layers pass on a `Request`, and share the
types in `signals`. The cache is `reply_cache`, which uses `database` and the locks in `claims`.
`harness.engine.call_stack` builds each model's stack.
"""
