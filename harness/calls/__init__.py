"""What stands between the scheduler and a backend, in one order.

`calls` (cache and single-flight), `retry`, `circuit` (outages), `budget`, then
the `limits.lane` of the model, then the backend.
"""
