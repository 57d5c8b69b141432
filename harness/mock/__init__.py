"""A provider that costs nothing: a loopback server that behaves, and misbehaves, on order.

For the tests and for users' own dry runs. It answers through the real protocol,
so that real clients are tested and none is patched. It stands alone: nothing
here imports the rest of the harness.

>>> with MockServer(latency=0.01, faults={"500": 0.1}) as server:  # doctest: +SKIP
...     client = openai.OpenAI(base_url=server.base_url, api_key="any")

In the order of a request: `server` listens, `connection` carries, `app`
decides, a `wire` (`openai_chat`, `openai_completions`, `anthropic_messages`)
reads and words with its vendor (`openai`, `anthropic`), `answers` speak after
some `reasoning` and tell their `logprobs`, `limits` refuse, `latency` delays,
`faults` break, `stats` count, and tell the `peak`; `control` is the way in for
whoever watches.
"""

from harness.mock.answers import Answer, Answerer
from harness.mock.errors import MockError
from harness.mock.faults import Fault
from harness.mock.limits import Limits
from harness.mock.peak import PerMinute
from harness.mock.server import MockServer
from harness.mock.stats import BodyCount, Snapshot

__all__ = [
    "Answer",
    "Answerer",
    "BodyCount",
    "Fault",
    "Limits",
    "MockError",
    "MockServer",
    "PerMinute",
    "Snapshot",
]
