"""A simulated provider on loopback, with configurable latency, faults and rate limits.

Users rehearse runs on it, and real clients are tested against it: it speaks the real protocols.
`server` listens and `app` handles each request: `openai` and `anthropic` decode it and encode the
reply, `answers` writes the text, `faults` draws faults and latencies, `stats` counts and limits.
"""

from harness.mock.answers import Answer
from harness.mock.server import MockServer
from harness.mock.stats import BodyCount, Limits
from harness.mock.wire import MockError, MockRequest

__all__ = ["Answer", "BodyCount", "Limits", "MockError", "MockRequest", "MockServer"]
