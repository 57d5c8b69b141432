"""Every exception of the vendors' SDKs, as one of ours.

The OpenAI and Anthropic SDKs come from one generator: their exceptions have the
same names and shapes, so one translation serves both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from harness.errors import (
    AuthenticationFailed,
    CallError,
    ConnectionFailed,
    FatalCallError,
    MalformedReply,
    ModelNotFound,
    ParameterRefused,
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
        return RateLimited(message, retry_after=_retry_after(error))
    if status in (408, 409, 499) or status >= 500:
        return ServerFailed(message, retry_after=_retry_after(error))
    if status == 400 and (code in UNSUPPORTED or any(word in said for word in UNSUPPORTED_WORDS)):
        return ParameterRefused(message, "Remove it from decoding in the run file.")
    return RequestRejected(message)


def _retry_after(error: Any) -> float | None:
    """Seconds, from ``retry-after-ms`` or a numeric ``retry-after``, at most ten minutes."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(error.response.headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if 0 <= seconds <= 600:
            return seconds
    return None


def _connection(error: Exception, endpoint: str, *, timed_out: bool) -> CallError:
    # The aiohttp transport reports a refused connection as a time-out:
    # what really happened is further down the chain.
    cause: BaseException | None = error
    chain: list[BaseException] = []
    while cause is not None and len(chain) < 10:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    refused = any(
        isinstance(link, OSError) and not isinstance(link, TimeoutError) for link in chain
    )
    connecting = any(type(link).__name__ == "ConnectTimeout" for link in chain)
    if timed_out and not refused and not connecting:
        return TimedOut(f"{endpoint}: no answer in time.")
    why = next((str(link) for link in reversed(chain) if str(link)), "the connection failed")
    return ConnectionFailed(
        f"Cannot reach {endpoint}: {why}.", "Check model.base_url and the network."
    )
