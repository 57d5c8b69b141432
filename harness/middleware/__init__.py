"""What stands between the scheduler and a backend, in one order.

Cache and single-flight, then retry, then concurrency, then the backend.
"""
