"""A simulated provider on loopback, with configurable latency, faults and rate limits.

The test suite runs against it, and users rehearse runs on it. It speaks the real protocols, so real
clients are tested and nothing is patched. It imports nothing else from the harness.

>>> with MockServer(latency=0.01, faults={"500": 0.1}) as server:  # doctest: +SKIP
...     client = openai.OpenAI(base_url=server.base_url, api_key="any")

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
