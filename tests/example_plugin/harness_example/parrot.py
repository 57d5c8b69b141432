"""A backend: answers with the last word it was told."""

from __future__ import annotations

from harness.plugin import Backend
from harness.records import Reply, Request


class ParrotBackend(Backend):
    """Repeats the last word of the prompt.

    times: how often it says it.
    """

    features = frozenset({"conversation", "free"})
    cacheable = False
    endpoint = ""

    def __init__(self, times: int = 1) -> None:
        self._times = times

    async def generate(self, request: Request) -> Reply:
        """Repeat."""
        word = request.messages[-1].content.split()[-1]
        return Reply(" ".join([word] * self._times), "stop")
