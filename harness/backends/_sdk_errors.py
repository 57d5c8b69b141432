"""Every exception of the vendors' SDKs, as one of ours.

The OpenAI and Anthropic SDKs come from one generator: their exceptions have the
same names and shapes, so one translation serves both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any

from harness.errors import (
    AuthenticationFailed,
    BrokenOff,
    CallError,
    ConnectionFailed,
    ConnectionLost,
    FatalCallError,
    MalformedReply,
    ModelNotFound,
    Overloaded,
    ParameterRefused,
    PromptRefused,
    RateLimited,
    RequestRejected,
    ServerFailed,
    TimedOut,
)

SPENT = frozenset(
    {
        *("insufficient_quota", "billing_error", "billing_hard_limit_reached"),
        *("enforced_spend_limit_reached", "contract_spend_limit_reached"),
    }
)
"""Codes that say the account has no money left: waiting does not help."""
UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value"})
UNSUPPORTED_WORDS = ("Extra inputs are not permitted", "is deprecated for this model")
"""Anthropic has no code for it."""

LONGEST_WAIT_S = 600.0


@contextmanager
def translated(
    sdk: ModuleType, endpoint: str, model: str, key_variable: str | None, key: str
) -> Iterator[None]:
    """Turn what an SDK raises inside into a `CallError`.

    key: is taken out of any message, since servers like to quote it.
    """
    base: Any = getattr(sdk, "OpenAIError", None) or sdk.AnthropicError
    try:
        yield
    except sdk.APIStatusError as error:
        raise _status(error, endpoint, model, key_variable, key) from None
    except sdk.APIConnectionError as error:
        raise _connection(
            error, endpoint, timed_out=isinstance(error, sdk.APITimeoutError)
        ) from None
    except base as error:
        said = f"{endpoint}: {type(error).__name__}: {_without(key, str(error))}"
        if isinstance(error, sdk.APIError):
            raise MalformedReply(said) from None
        raise FatalCallError(said, "The client cannot make requests as it is set up.") from None
    except Exception as error:
        # Of a server that does not speak HTTP, aiohttp's own error comes through.
        if not type(error).__module__.startswith("aiohttp."):
            raise
        raise MalformedReply(f"{endpoint}: {_without(key, str(error))}") from None


def _without(key: str, text: str) -> str:
    text = text.replace(key, "***") if key else text  # first: a cut would leave a part of it
    return " ".join(text.split())[:500]


def _detail(error: Any) -> dict[str, Any]:
    """The provider's own words: OpenAI's body is the inner object, Anthropic's the whole."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body if isinstance(body, dict) else {}


def _status(error: Any, endpoint: str, model: str, key_variable: str | None, key: str) -> CallError:
    status: int = error.status_code
    detail = _detail(error)
    more = detail.get("details")
    exact = more.get("error_code") if isinstance(more, dict) else None
    code = str(exact or detail.get("code") or detail.get("type") or "")
    said = _without(key, str(detail.get("message") or error.message))
    message = f"{endpoint} answered {status}: {said}"
    if code in SPENT or status == 402:
        return AuthenticationFailed(message, "The account has no credit left.")
    if status in (400, 403) and _filtered(code, said, detail):
        return PromptRefused(message)
    if status in (401, 403):
        return AuthenticationFailed(
            message,
            f"Check the key in the environment variable {key_variable}."
            if key_variable
            else "No key was sent: name the variable that holds it in model.api_key_env.",
        )
    if status == 404:
        return ModelNotFound(
            message, f"Check model.name ({model!r}) and model.base_url in the run file."
        )
    if status == 429:
        return RateLimited(message, retry_after=_retry_after(error.response.headers))
    if status in (503, 529):
        return Overloaded(message, retry_after=_retry_after(error.response.headers))
    if status in (408, 499, 504, 524):
        return BrokenOff(message, retry_after=_retry_after(error.response.headers))
    if status == 409 or status >= 500:
        return ServerFailed(message, retry_after=_retry_after(error.response.headers))
    if status == 400 and (code in UNSUPPORTED or any(word in said for word in UNSUPPORTED_WORDS)):
        return ParameterRefused(message, "Remove it from decoding in the run file.")
    return RequestRejected(message)


FILTERS = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})
FILTER_WORDS = (
    "flagged as potentially violating our usage policy",  # OpenAI's reasoning models
    "blocked by content filtering policy",  # Anthropic
    "Content Exists Risk",  # DeepSeek
    "ContentPolicyViolationError",  # LiteLLM proxies
)


def _filtered(code: str, said: str, detail: dict[str, Any]) -> bool:
    """Whether a provider's filter refuses this prompt; OpenRouter's 403 is not about the key."""
    inner, more = detail.get("innererror"), detail.get("metadata")
    return (
        code in FILTERS
        or (isinstance(inner, dict) and inner.get("code") in FILTERS)
        or any(words in said for words in FILTER_WORDS)
        or (isinstance(more, dict) and ("flagged_input" in more or "reasons" in more))
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from ``retry-after-ms`` or ``retry-after``, at most ten minutes."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (value := headers.get(name)) is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
            except (ValueError, TypeError, OverflowError):  # no date, or one without a zone
                continue
            seconds = max(0.0, seconds)
        if seconds >= 0:
            return min(seconds, LONGEST_WAIT_S)
    return None


UNSENT = frozenset({"ClientConnectorError", "ConnectionTimeoutError", "ConnectError", "ProxyError"})
"""Exceptions of the transports that say that no request was sent."""


def _connection(error: Exception, endpoint: str, *, timed_out: bool) -> CallError:
    # The aiohttp transport reports any broken or refused connection as a time-out
    # of connecting: what really happened is further down the chain.
    cause: BaseException | None = error
    chain: list[BaseException] = []
    while cause is not None and len(chain) < 10:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    kinds = {kind.__name__ for link in chain for kind in type(link).__mro__}
    broken = any(isinstance(link, OSError) and not isinstance(link, TimeoutError) for link in chain)
    if timed_out and not broken and "ConnectTimeout" not in kinds:
        return TimedOut(f"{endpoint}: no answer in time.")
    why = next((str(link) for link in reversed(chain) if str(link)), "the connection failed")
    remedy = "Check model.base_url and the network."
    if kinds & UNSENT:
        return ConnectionFailed(f"Cannot reach {endpoint}: {why}.", remedy)
    return ConnectionLost(f"The connection to {endpoint} broke: {why}.", remedy)
