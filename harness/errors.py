"""Everything that can go wrong, as one tree.

Two families. A `UserError` is shown to the user as a line or two (what
happened, where, what to do next) and ends the command. A `CallError` is a
provider's failure: transient ones are retried, fatal ones end the run, and
whatever is left becomes data, an attempt with outcome ``error``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any


class HarnessError(Exception):
    """Base of all errors of the project.

    message: what happened and where.
    remedy: what the user can do next; empty where there is nothing.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UserError(HarnessError):
    """Ends the command with a message and no traceback."""


class ConfigError(UserError):
    """A run file, override or option is not valid."""


class SecretMissing(UserError):
    """A key that the backend needs is not in the environment."""


class DataMissing(UserError):
    """A data set, recording or tokeniser file is not there."""


class DataInvalid(UserError):
    """A data file is there but cannot be read as what it should be."""


class RunConflict(UserError):
    """The run folder is held by another process or by another configuration."""


class StoreFailed(UserError):
    """The run folder or the cache cannot be read or written."""


class Unparseable(HarnessError):
    """An answer that a task or checker cannot read: an outcome, not a failure of the run.

    scores: what a task can say of it all the same, name to `harness.records.Score`.
    """

    scores: Mapping[str, Any] = MappingProxyType({})


class ShotLeaks(HarnessError):
    """A shot would show the answer to its instance: no call is made, and the run ends."""


class CallError(HarnessError):
    """A call to a provider failed. Not transient, not fatal: becomes data."""


class RequestRejected(CallError):
    """The provider refuses this one request (too long, forbidden content, bad parameter)."""


class PromptRefused(RequestRejected):
    """The provider's filter refuses this prompt: an answer of its kind, not a failure."""


class ReplayMissing(UserError):
    """The recording holds no answer for a prompt."""


class TransientError(CallError):
    """Worth trying again.

    retry_after: seconds the provider asks to wait, None where it does not say.
    """

    def __init__(self, message: str, remedy: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, remedy)
        self.retry_after = retry_after


class RateLimited(TransientError):
    """429: too many requests or tokens."""


class ServerFailed(TransientError):
    """The provider answered 408, 409 or 5xx."""


class BrokenOff(ServerFailed):
    """The provider gave up an answer that it had begun (504, or it says so): it may bill it."""


class Overloaded(ServerFailed):
    """503 or 529: the provider has more to do than it can."""


class TimedOut(TransientError):
    """No answer within the time allowed."""


class ConnectionFailed(TransientError):
    """The provider could not be reached, or the connection broke."""


class ConnectionLost(ConnectionFailed):
    """The connection broke after the request was sent: it may have been worked on."""


class MalformedReply(TransientError):
    """The provider's body is not what its protocol promises."""


class FatalCallError(CallError, UserError):
    """Would fail for every request: ends the run, which stays resumable."""


class AuthenticationFailed(FatalCallError):
    """401 or 403: the key is missing, wrong or not allowed."""


class ModelNotFound(FatalCallError):
    """404: the provider has no such model (or no such path)."""


class ParameterRefused(FatalCallError):
    """The model does not take a decoding parameter."""


class ProviderDown(FatalCallError):
    """The provider cannot be reached, or fails continually."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """A remedy for a mistyped name: the nearest valid one, else all of them."""
    choices = sorted(valid)
    close = get_close_matches(name, choices, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Valid names: {', '.join(choices)}." if choices else ""
