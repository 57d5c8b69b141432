"""A simulated provider on loopback, with configurable latency, faults and rate limits.

It speaks the real protocols: users rehearse runs with it, and real clients are tested against it.
`server` runs it, and `app` handles requests.
"""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="A simulated provider, with faults and rate limits.",
    verbs={
        "mock": Verb(
            summary="Serve a simulated provider on this machine.",
            heading="Data and tools",
            target=".server:mock",
        )
    },
)
