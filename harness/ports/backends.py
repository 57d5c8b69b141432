"""What a backend must offer, and may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, get_args

from harness.records import ConstraintKind, Reply, Request

PARAMETERS = frozenset({"temperature", "top_p", "max_tokens", "stop", "extra", "seed"})
"""What a run file may ask of nearly any backend's decoding, as its features name it."""


LOGPROBS = "logprobs"
"""And what only some give: the log-probabilities of the likeliest tokens."""


PROMPT_LOGPROBS = "prompt_logprobs"
"""Those of the prompt's own tokens."""


OWN_DRAWS = "own_draws"
"""Sampling is cheap: instances that share a prompt get answers of their own."""


CONSTRAINTS: frozenset[ConstraintKind] = frozenset(get_args(ConstraintKind))
"""What an answer can be held to, as features name it."""


class Backend(Protocol):
    """One provider protocol."""

    @property
    def features(self) -> frozenset[str]:
        """What it can do, by name.

        The decoding parameters it takes (``temperature``, ``top_p``,
        ``max_tokens``, ``stop``, ``extra``, ``seed``; all others are refused
        before any work); ``logprobs``: tells the likeliest tokens of each position with
        their log-probabilities; what it can hold an answer to (``json_schema``, ``regex``,
        ``choices``, ``grammar``); and ``max_tokens_required``; ``conversation``: takes
        more than one turn; ``recorded``: its answers are there already, whatever is
        asked; ``by_instance``: its answers depend on the instance
        asked for, not on the prompt alone; ``free``: its calls cost no money (a
        local server); ``own_draws``: sampled answers are drawn anew for instances that share a
        prompt, by seeds of their own; ``simulated``: its answers are made up, and every table
        must say so.
        """
        ...

    @property
    def endpoint(self) -> str:
        """Where its requests go: part of the cache key, empty where nowhere."""
        ...

    @property
    def cacheable(self) -> bool:
        """Whether its replies cost something and are worth keeping."""
        ...

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises: a `harness.errors.CallError`, nothing of the vendor's own;
            `PromptRefused` is recorded as an answer with outcome ``refused``.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections and processes."""
        ...


class Startable(Protocol):
    """A backend that must come up before it can be asked, such as a server of one's own."""

    @property
    def ready(self) -> bool:
        """Whether it can be asked now."""
        ...

    async def start(self, tell: Callable[[str], None]) -> None:
        """Return when it can be asked, for the first time or again; may take minutes.

        tell: is told what the user should know.

        Raises: `harness.errors.FatalCallError` where that will not be.
        """
        ...


class Deep(Protocol):
    """A backend that works on many calls at a time, such as a batch of an engine of one's own."""

    @property
    def depth(self) -> int:
        """Calls in flight that keep it busy, where the user states no ``limits.concurrency``.

        It queues what it cannot take yet, so that a run need not begin with a few.
        """
        ...
