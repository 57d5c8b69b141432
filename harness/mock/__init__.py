"""A simulated provider on loopback, with configurable latency, faults and rate limits.

It speaks the real protocols: users rehearse runs with it, and real clients are tested against it.
`server` runs it, and `app` handles requests.
"""

from harness.mock.answers import Answer
from harness.mock.server import MockServer
from harness.mock.stats import BodyCount, Limits
from harness.mock.wire import MockError, MockRequest

__all__ = ["Answer", "BodyCount", "Limits", "MockError", "MockRequest", "MockServer"]
