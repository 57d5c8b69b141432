"""What stands between the scheduler and a backend, from the top down.

`calls` (cache and single-flight), `retry`, `circuit` (outages, and the start of local servers),
`budget`, `concurrency` (with `rate_limits`), then the backend. The cache of paid replies is
`reply_cache`, on `database` and `claims`.
"""
