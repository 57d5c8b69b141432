"""Every exception of the OpenAI SDK, as one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import (
    AuthenticationFailed,
    CallError,
    ConnectionFailed,
    MalformedReply,
    ModelNotFound,
    RateLimited,
    RequestRejected,
    ServerFailed,
    TimedOut,
)


@contextmanager
def translated(endpoint: str, model: str, key_variable: str | None, key: str) -> Iterator[None]:
    """Turn what the SDK raises inside into a `CallError`.

    key: is taken out of any message, since servers like to quote it.
    """
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        message = _message(error)
        if key:
            message = message.replace(key, "***")
        raise _status(error, message, endpoint, model, key_variable) from None
    except openai.APIConnectionError as error:
        raise _connection(error, endpoint) from None
    except openai.OpenAIError as error:
        raise MalformedReply(f"{endpoint}: {type(error).__name__}: {error}") from None


def _message(error: object) -> str:
    body = getattr(error, "body", None)
    text = body.get("message") if isinstance(body, dict) else None
    text = text or getattr(error, "message", "") or str(error)
    return " ".join(str(text).split())[:500]


def _status(
    error: object, message: str, endpoint: str, model: str, key_variable: str | None
) -> CallError:
    import openai

    assert isinstance(error, openai.APIStatusError)
    status = error.status_code
    said = f"{endpoint} answered {status}: {message}"
    if status in (401, 403):
        remedy = (
            f"Check the key in the environment variable {key_variable}."
            if key_variable
            else "No key was sent: name the variable that holds it in model.api_key_env."
        )
        return AuthenticationFailed(said, remedy)
    if status == 404:
        return ModelNotFound(
            said, f"Check model.name ({model!r}) and model.base_url in the run file."
        )
    if status == 429:
        if error.code == "insufficient_quota":
            return AuthenticationFailed(said, "The account has no credit left.")
        return RateLimited(said, retry_after=_retry_after(error))
    if status in (408, 409) or status >= 500:
        return ServerFailed(said, retry_after=_retry_after(error))
    return RequestRejected(said)


def _retry_after(error: object) -> float | None:
    """Seconds, from ``retry-after-ms`` or a numeric ``retry-after``, at most ten minutes."""
    headers = error.response.headers  # type: ignore[attr-defined]
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if 0 <= seconds <= 600:
            return seconds
    return None


def _connection(error: Exception, endpoint: str) -> CallError:
    import openai

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
    if isinstance(error, openai.APITimeoutError) and not refused:
        return TimedOut(f"{endpoint}: no answer in time.")
    why = next((str(link) for link in reversed(chain) if str(link)), "the connection failed")
    return ConnectionFailed(
        f"Cannot reach {endpoint}: {why}.", "Check model.base_url and the network."
    )
