"""A simulated provider on loopback, with configurable latency, faults and rate limits.

It speaks the real protocols: users rehearse runs with it, and real clients are tested against it.
`server` runs it, and `app` handles requests. The modules named after providers, and `clouds`,
decode requests and encode replies; those named ``…_batches`` serve batches. `answers` writes the
answers, `faults` draws faults and latencies, and `stats` counts requests and enforces rate limits.
"""

from harness.mock.answers import Answer
from harness.mock.server import MockServer
from harness.mock.stats import BodyCount, Limits
from harness.mock.wire import MockError, MockRequest

__all__ = ["Answer", "BodyCount", "Limits", "MockError", "MockRequest", "MockServer"]
