"""A simulated provider on loopback, with configurable latency, faults and rate limits.

The test suite runs against it, and users rehearse runs on it. It speaks the real protocols, so real
clients are tested and nothing is patched. It imports nothing else from the harness.

`server` listens and `app` handles each request: `openai` and `anthropic` decode it and encode the
reply, `answers` writes the text, `faults` draws faults and latencies, and `stats` counts requests
and enforces rate limits.
"""

from harness.mock.answers import Answer
from harness.mock.faults import Fault
from harness.mock.server import MockServer
from harness.mock.stats import BodyCount, Limits
from harness.mock.wire import MockError, MockRequest

__all__ = ["Answer", "BodyCount", "Fault", "Limits", "MockError", "MockRequest", "MockServer"]
