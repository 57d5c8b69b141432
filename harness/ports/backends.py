"""What a backend has to offer, and what it may offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, get_args, runtime_checkable

from harness.records import ConstraintKind, Reply, Request

PARAMETERS = frozenset({"temperature", "top_p", "max_tokens", "stop", "extra", "seed"})
"""Decoding parameters, as a backend's features name them."""

LOGPROBS = "logprobs"
"""Feature: returns the log-probabilities of the most likely tokens."""

PROMPT_LOGPROBS = "prompt_logprobs"
"""Feature: returns the log-probabilities of the prompt's tokens."""

OWN_DRAWS = "own_draws"
"""Feature: sampling is cheap, so instances that share a prompt get answers of their own."""

CONSTRAINTS: frozenset[ConstraintKind] = frozenset(get_args(ConstraintKind))
"""Features: what decoding can be constrained by."""


@runtime_checkable
class Backend(Protocol):
    """One provider protocol."""

    @property
    def features(self) -> frozenset[str]:
        """What the backend supports, by name.

        - Decoding parameters: ``temperature``, ``top_p``, ``max_tokens``, ``stop``, ``extra``,
          ``seed``; a run file that sets another one is refused before any call.
        - ``max_tokens_required``: the provider insists on ``max_tokens``.
        - ``json_schema``, ``regex``, ``choices``, ``grammar``: constrained decoding.
        - ``logprobs``, ``prompt_logprobs``: returns log-probabilities.
        - ``conversation``: accepts more than one turn.
        - ``by_instance``: answers depend on the instance and not on the prompt alone.
        - ``own_draws``: instances that share a prompt are sampled separately.
        - ``free``: calls cost no money (a local server).
        - ``recorded``: answers were recorded earlier; decoding parameters are ignored.
        - ``simulated``: answers are made up, and every table says so.
        """
        ...

    @property
    def endpoint(self) -> str:
        """The address that requests go to; part of the cache key, empty if there is none."""
        ...

    @property
    def cacheable(self) -> bool:
        """Whether replies are worth keeping, because they cost money or time."""
        ...

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            harness.errors.CallError: Never a vendor's own exception. `PromptRefused` becomes an
                answer with the outcome ``refused``.
        """
        ...

    async def aclose(self) -> None:
        """Close connections and end processes."""
        ...


@runtime_checkable
class Startable(Protocol):
    """A backend that has to start before it can answer, such as a server that it owns."""

    @property
    def ready(self) -> bool:
        """Whether it can answer now."""
        ...

    async def start(self, on_status: Callable[[str], None]) -> None:
        """Return once the backend can answer; may take minutes, and may be called again.

        Args:
            on_status: Called with messages for the user.

        Raises:
            harness.errors.FatalCallError: It will never be able to answer.
        """
        ...


@runtime_checkable
class PreferredConcurrency(Protocol):
    """A backend that works on many calls at a time, such as an engine that batches them."""

    @property
    def preferred_concurrency(self) -> int:
        """Calls in flight that keep it busy, used if the run file sets no concurrency.

        The backend queues what it cannot take yet, so a run starts at this number at once.
        """
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A backend or judge whose results depend on more than its options, such as weights."""

    def fingerprint(self) -> Mapping[str, str]:
        """Everything else that its results depend on, by name, for the manifest."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A backend with options that change no answer. Asked of the class, before it is built."""

    @property
    def may_change(self) -> frozenset[str]:
        """Options that a continued run may change, such as the number of GPUs."""
        ...
