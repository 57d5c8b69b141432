"""All errors of the project, as one hierarchy.

There are two families. A `UserError` is shown to the user in a line or two (what happened, where,
what to do next) and ends the command. A `CallError` is a provider's failure: a `TransientError`
is retried, a `FatalCallError` ends the run, a `PromptRefused` is an answer, and any other
becomes data: an attempt with outcome ``error``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal


class HarnessError(Exception):
    """Base of all errors of the project.

    The message says what happened and where, the remedy what the user can do next.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UserError(HarnessError):
    """Ends the command with a message and no traceback."""


class ConfigError(UserError):
    """A run file, override or option is not valid."""


class SecretMissing(UserError):
    """A key that the backend needs is not set in the environment."""


class DataMissing(UserError):
    """A data set, recording or tokeniser file does not exist."""


class DataInvalid(UserError):
    """A data file exists but does not have the expected content."""


class RunConflict(UserError):
    """The run folder is held by another process, or has a different configuration."""


class StoreFailed(UserError):
    """The run folder or the cache cannot be read or written."""


class Unparseable(HarnessError):
    """A task or checker cannot read an answer: an outcome, not a failure of the run.

    Its ``scores`` are what the task can still say about the answer.
    """

    scores: Mapping[str, Any] = MappingProxyType({})


class ShotLeaks(HarnessError):
    """A shot would reveal the answer to its instance: no call is made, and the run ends."""


class ReplayMissing(UserError):
    """The recording holds no answer for a prompt."""


class CallError(HarnessError):
    """A call to a provider failed. Unless it is one of the kinds below, it becomes data."""


class RequestRejected(CallError):
    """The provider rejects this one request (too long, bad schema): an attempt with an error."""


class PromptRefused(RequestRejected):
    """The provider's content filter refuses this prompt: an answer, with outcome ``refused``."""


FailureKind = Literal[
    "rate_limited",  # 429: too many requests or tokens
    "overloaded",  # 503 or 529: the provider has too much to do
    "server_failed",  # 409 or 5xx
    "interrupted",  # the provider gave up an answer it had begun (408, 504), and may bill it
    "timed_out",  # no complete answer in time; may be billed
    "unreachable",  # no connection, so the request was never sent
    "connection_lost",  # the connection broke after the request was sent; may be billed
    "malformed",  # the body is not what the protocol promises; may be billed
]
"""What went wrong with a call that is worth retrying."""


class TransientError(CallError):
    """A failure that is worth retrying.

    Its kind decides whether fewer calls are sent at once, whether the provider counts as down, and
    whether the call may have been billed. ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        message: str,
        remedy: str = "",
        *,
        kind: FailureKind = "server_failed",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, remedy)
        self.kind, self.retry_after = kind, retry_after


class FatalCallError(CallError, UserError):
    """A failure that every call would meet (bad key, unknown model): ends the run, resumable."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Suggest a fix for a mistyped name: the nearest valid one, else list all of them."""
    choices = sorted(valid)
    close = get_close_matches(name, choices, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Valid names: {', '.join(choices)}." if choices else ""
