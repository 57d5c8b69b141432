"""Reads failures and rate limits in providers' responses (docs/limits.md)."""

import contextlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Literal

from harness.errors import (
    AccessDenied,
    CallError,
    FailureKind,
    FatalCallError,
    PromptRefused,
    PromptTooLong,
    RequestRejected,
    TransientError,
)
from harness.records import Allowance

Treatment = FailureKind | Literal["fatal", "rejected"]

STATUSES: Mapping[int, Treatment] = {
    **dict.fromkeys((400, 412, 413, 422, 431), "rejected"),
    **dict.fromkeys((401, 402, 403, 404), "fatal"),
    **dict.fromkeys((408, 499, 504, 524), "interrupted"),
    424: "server_failed",  # the model failed (Bedrock)
    **dict.fromkeys((409, 425, 500, 501, 502), "server_failed"),
    429: "rate_limited",
    **dict.fromkeys((498, 503, 529), "overloaded"),  # 498: Groq's flex tier
}
"""How HTTP error statuses are treated.

Statuses that are not listed are ``server_failed`` if they are 500 or more, else ``rejected``.
"""

CODES: Mapping[str, Treatment | Literal["no credit", "unsupported", "filtered", "too long"]] = {
    **dict.fromkeys(("server_error", "vector_store_timeout"), "server_failed"),
    "rate_limit_exceeded": "rate_limited",
    **dict.fromkeys(("data_residency_mismatch", "organization_on_hold"), "fatal"),
    **dict.fromkeys(("cmek_key_disabled", "cmek_key_network_blocked"), "fatal"),
    **dict.fromkeys(("organization_type_not_supported", "parent_organization_required"), "fatal"),
    **dict.fromkeys(("user_profile_required", "user_profile_not_found"), "fatal"),
    **dict.fromkeys(("organization_not_enrolled_in_beta", "FAILED_PRECONDITION"), "fatal"),
    **dict.fromkeys(("insufficient_quota", "billing_error"), "no credit"),
    **dict.fromkeys(("billing_hard_limit_reached", "contract_spend_limit_reached"), "no credit"),
    "enforced_spend_limit_reached": "no credit",
    **dict.fromkeys(("unsupported_parameter", "unsupported_value"), "unsupported"),
    **dict.fromkeys(("content_filter", "content_policy_violation"), "filtered"),
    **dict.fromkeys(("ResponsibleAIPolicyViolation", "invalid_prompt"), "filtered"),
    **dict.fromkeys(("bio_policy", "misalignment_policy_violation"), "filtered"),
    "image_content_policy_violation": "filtered",
    **dict.fromkeys(("context_length_exceeded", "request_too_large"), "too long"),
    "string_above_max_length": "too long",
}
"""How errors with a code are treated, if they have no HTTP status.

An error with both a code and a status is treated by its status, with three exceptions. ``fatal``
and ``no credit`` end the run whatever the status. ``unsupported`` (a parameter that must be removed
from the run file) does so only with status 400. ``filtered`` (a prompt that a content filter
refuses) counts only with status 400 or 403.
"""

EXCEPTIONS: Mapping[str, Treatment | Literal["by cause"]] = {
    "httpx2.RequestError": "by cause",
    "ssl.SSLError": "by cause",
    "openai.OpenAIError": "fatal",  # the client cannot make requests as it is configured
    "openai.APIConnectionError": "by cause",
    "openai.APIResponseValidationError": "malformed",
    "anthropic.AnthropicError": "fatal",
    "anthropic.APIConnectionError": "by cause",
    "anthropic.APIResponseValidationError": "malformed",
    "aiohttp.ClientError": "malformed",  # comes through if a server does not speak HTTP
    "aiohttp.HttpProcessingError": "malformed",
    "botocore.BotoCoreError": "fatal",  # no valid credentials, as for the other clouds
    "botocore.HTTPClientError": "unreachable",
    "botocore.ConnectionError": "unreachable",
    "google.GoogleAuthError": "fatal",
    **dict.fromkeys(("google.TransportError", "google.TimeoutError"), "unreachable"),
    "google.ResponseError": "unreachable",
    "azure.AzureError": "fatal",
    **dict.fromkeys(("azure.ServiceRequestError", "azure.ServiceResponseError"), "unreachable"),
}
"""How exceptions are treated, by package and name of the class or of its nearest listed base class.

Those of the clouds' packages are raised while credentials are found or renewed.
"""

# Transport exceptions which mean that no request was sent.
UNSENT_EXCEPTIONS = frozenset(
    {"ClientConnectorError", "ConnectionTimeoutError", "ConnectError", "ProxyError"}
)

NO_CREDIT_REMEDY = "The account has no credit left."
QUOTA_REMEDY = "Run it again when the quota is renewed, or raise it."
# Phrases in messages without a specific code that end the run, with the remedy.
EXHAUSTED_PHRASES = {
    "credit balance is too low": NO_CREDIT_REMEDY,  # Anthropic, with status 400
    "reached your specified API usage limits": QUOTA_REMEDY,  # Anthropic, with status 400
    "Too many tokens per day": QUOTA_REMEDY,  # Bedrock, with status 429
    "reached its monthly spending limit": NO_CREDIT_REMEDY,  # xAI, with status 403 or 429
    # LiteLLM's proxy, which drops the code. Google uses these words for limits per minute, too.
    "OpenAIException - You exceeded your current quota": NO_CREDIT_REMEDY,
}
TOO_MANY_CALLS = re.compile(
    r"concurrency|concurrent (connections|requests)|type: max_parallel_requests"
    r"|max_parallel_requests=|(?<!/ )max parallel request",
    re.IGNORECASE,
)
"""Matches messages with status 429 that are about the number of calls in flight.

Such messages come from Anthropic, Moonshot and LiteLLM's proxy, for example. Not matched is the
message in which the proxy, before 2025, named all its limits.
"""
PROMPT_TOO_LONG = re.compile(
    r"(prompt|input|request|message) is too long|reduce (the length|your prompt)"
    r"|context[ _](length|window|size)|maximum (prompt|input|model) length|max_model_len"
    r"|input token count.* exceeds|maximum number of (input )?tokens",
    re.IGNORECASE,
)
"""Matches messages about prompts that are too long, for which many servers have no code."""

# Phrases in messages of Anthropic, which has no error code for unsupported parameters.
UNSUPPORTED_PHRASES = ("Extra inputs are not permitted", "is deprecated for this model")
COMPLETION_TOKENS = "max_completion_tokens"  # which a server may require instead of max_tokens
FILTER_PHRASES = (
    "flagged as potentially violating our usage policy",  # OpenAI's reasoning models
    "blocked by content filtering policy",  # Anthropic
    "Content Exists Risk",  # DeepSeek
    "ContentPolicyViolationError",  # LiteLLM proxies
)

UNKNOWN_MODEL = "Invalid model name passed in model="  # LiteLLM's proxy, with status 400
ACCOUNT_REMEDY = "Check the account, and model.base_url in the run file."
MASK = "[key]"  # replaces a key that a server sends back
_ESCAPE = re.compile(  # an escaped character of a key
    r'(?:\\+u00|\\+x|%(?:25)*|=)([2-7][0-9a-fA-F])|\\+([/"])'
)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
MIN_PART_LENGTH = 12  # characters; a shorter part of a key may be a word


@dataclass(frozen=True, slots=True)
class CallContext:
    """A call's endpoint, model and API key, for use in error messages."""

    endpoint: str
    model: str = ""
    key_variable: str | None = None  # None if no key was sent
    key: str = ""  # removed from every message, since servers tend to quote it
    secrets: tuple[str, ...] = ()  # of other headers, removed as well
    url_hint: str = ""  # what to change in model.base_url if the server does not know the path

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """The key and the other secrets that were sent."""
        return tuple(filter(None, (self.key, *self.secrets)))

    def mask_secrets(self, text: str) -> str:
        """Return at most 500 characters of text, with the secrets masked.

        Parts of a secret, and its hexadecimal and Base64 encodings, are masked as well.
        """
        unescaped = _unescape(text)
        secrets = self.all_secrets
        if any(_find_part(unescaped, secret, 0) >= 0 or secret in unescaped for secret in secrets):
            text = unescaped
        for secret in secrets:  # before the text is cut to its maximum length
            text = _mask_parts(text.replace(secret, MASK), secret)
            for encoded in _encodings(secret):
                text = re.sub(re.escape(encoded), MASK, text, flags=re.IGNORECASE)
        return " ".join(text.split())[:500]


def _unescape(text: str) -> str:
    """Resolve HTML, JSON, URL and other escapes in text, and remove invisible characters."""
    text = _INVISIBLE.sub("", unescape(text))
    for _ in range(2):  # a URL in a URL is escaped twice
        text = _ESCAPE.sub(lambda escape: escape[2] or chr(int(escape[1], 16)), text)
    return text


def _encodings(secret: str) -> Iterator[str]:
    """Yield a secret in hexadecimal and in Base64, at each possible offset in an encoded text."""
    if len(secret) < MIN_PART_LENGTH:  # too short to distinguish from other text
        return
    content = secret.encode()
    yield content.hex()
    for offset in range(3):  # bytes
        encoded = b64encode(bytes(offset) + content).decode().rstrip("=")
        start = (0, 2, 3)[offset]  # earlier characters depend on other bytes, too
        end = len(encoded) - bool((offset + len(content)) % 3)
        part = encoded[start:end]
        yield part
        yield part.replace("+", "-").replace("/", "_")


def _mask_parts(text: str, secret: str) -> str:
    """Mask the parts of a secret with at least `MIN_PART_LENGTH` characters, ignoring case."""
    start = 0
    lowered = secret.translate(_ASCII_LOWER)
    while (start := _find_part(text, secret, start)) >= 0:
        end = start + MIN_PART_LENGTH
        while end < len(text) and text[start : end + 1].translate(_ASCII_LOWER) in lowered:
            end += 1
        text = f"{text[:start]}{MASK}{text[end:]}"
    return text


def _find_part(text: str, secret: str, start: int) -> int:
    """Return the first index from ``start`` on of a part of a secret, or -1. Case is ignored."""
    text = text.translate(_ASCII_LOWER)
    secret = secret.translate(_ASCII_LOWER)
    parts = {secret[n : n + MIN_PART_LENGTH] for n in range(len(secret) - MIN_PART_LENGTH + 1)}
    indices = [text.find(part, start) for part in parts]
    return min((index for index in indices if index >= 0), default=-1)


def exception_treatment(error: Exception) -> Treatment | Literal["by cause"] | None:
    """Return how an exception is treated, or None if it is not listed in `EXCEPTIONS`."""
    for base in type(error).__mro__:
        name = f"{base.__module__.partition('.')[0]}.{base.__name__}"
        if name in EXCEPTIONS:
            return EXCEPTIONS[name]
    return None


def exception_error(error: Exception, context: CallContext) -> CallError | None:
    """Convert an exception of an SDK or transport to a CallError (None: another exception)."""
    treatment = exception_treatment(error)
    if treatment is None:
        return None
    if treatment == "by cause":
        return _connection_error(error, context)
    message = f"{context.endpoint}: {type(error).__name__}: {context.mask_secrets(str(error))}"
    return _make_error(treatment, message, "The client is misconfigured.")


def sdk_error(error: Exception, context: CallContext) -> CallError | None:
    """Convert an SDK's exception to a CallError, by its HTTP status, its cause or its class.

    The result is None for another exception.
    """
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    if isinstance(status, int) and status >= 400 and response is not None:
        body = getattr(error, "body", None) or str(error)
        return status_error(status, response.headers, body, context)
    call_error = None
    if type(error).__name__ in ("APIConnectionError", "APITimeoutError"):
        cause = error.__cause__
        call_error = exception_error(cause, context) if isinstance(cause, Exception) else None
    return call_error or exception_error(error, context)


@dataclass(frozen=True, slots=True)
class _GoogleDetails:
    """The facts in the list ``details`` of a Google API's error (https://google.aip.dev/193)."""

    reasons: frozenset[str] = frozenset()
    daily: bool = False  # whether a daily quota is used up
    retry_after: float | None = None  # seconds


@dataclass(frozen=True, slots=True)
class _Failure:
    """The facts in a response that reports a failure."""

    status: int  # HTTP status, corrected by what the body says
    code_treatment: str | None  # the entry in `CODES`, or None if the body has no listed code
    detail: dict[str, Any]  # the error object
    text: str  # the error message, without secrets
    message: str  # for the user
    google: _GoogleDetails


def status_error(
    status: int, headers: Mapping[str, str], body: object, context: CallContext
) -> CallError:
    """Return the error for a response that reports a failure.

    Args:
        status: HTTP status, 400 or more.
        headers: The response's headers, with names in any case or {}.
        body: The body, as bytes, as text or decoded from JSON.
        context: The call to which it responds.
    """
    failure = _parse_failure(status, body, context)
    error = _account_error(failure) or _request_error(failure)
    if error is not None:
        return error
    treatment = _status_treatment(failure.status)
    remedy = _status_remedy(failure.status, context)
    if treatment == "fatal":
        return AccessDenied(failure.message, remedy)
    if failure.status == 429 and TOO_MANY_CALLS.search(failure.text):
        # LiteLLM's proxy always asks to wait for a minute: the end of any call is enough.
        return TransientError(failure.message, kind="crowded")
    wait_s = _retry_after(headers)
    if wait_s is None:
        wait_s = failure.google.retry_after
    return _make_error(treatment, failure.message, remedy, wait_s)


def _parse_failure(status: int, body: object, context: CallContext) -> _Failure:
    detail, text = _parse_error_body(body)
    details = detail.get("details")
    exact_code = details.get("error_code") if isinstance(details, dict) else None
    google = _google_details(details)
    codes = (exact_code, detail.get("code"), detail.get("type"), detail.get("status"))
    code_treatment = next((CODES[code] for code in map(str, codes) if code in CODES), None)
    text = context.mask_secrets(text)
    message = f"{context.endpoint} answered {status}: {text}"
    if "API_KEY_INVALID" in google.reasons:
        status = 401
    if UNKNOWN_MODEL in text:
        status = 404
    return _Failure(status, code_treatment, detail, text, message, google)


def _account_error(failure: _Failure) -> CallError | None:
    """Return the error that ends the run if the account lacks quota, credit or rights, or None."""
    if failure.status == 429 and failure.google.daily:
        return FatalCallError(failure.message, QUOTA_REMEDY)
    for phrase, remedy in EXHAUSTED_PHRASES.items():
        if phrase in failure.text:
            return FatalCallError(failure.message, remedy)
    if failure.code_treatment == "no credit" or failure.status == 402:
        return FatalCallError(failure.message, NO_CREDIT_REMEDY)
    if failure.code_treatment == "fatal":
        return FatalCallError(failure.message, ACCOUNT_REMEDY)
    return None


def _request_error(failure: _Failure) -> CallError | None:
    """Return the error if the prompt or a parameter of the request is the reason, or None."""
    if failure.status in (400, 403) and _is_filtered(failure):
        return PromptRefused(failure.message)
    has_phrase = any(phrase in failure.text for phrase in UNSUPPORTED_PHRASES)
    if failure.status == 400 and (has_phrase or failure.code_treatment == "unsupported"):
        remedy = "Remove it from decoding in the run file."
        if COMPLETION_TOKENS in failure.text:
            remedy = f"Set model.preset: openai, which sends {COMPLETION_TOKENS} instead."
        return FatalCallError(failure.message, remedy)
    is_too_long = failure.code_treatment == "too long" or PROMPT_TOO_LONG.search(failure.text)
    if failure.status == 413 or (_status_treatment(failure.status) == "rejected" and is_too_long):
        return PromptTooLong(failure.message)
    return None


def _status_treatment(status: int) -> Treatment:
    return STATUSES.get(status, "server_failed" if status >= 500 else "rejected")


def _status_remedy(status: int, context: CallContext) -> str:
    if status in (401, 403):
        if context.key_variable:
            return f"Check the key in the environment variable {context.key_variable}."
        return "No key was sent: name the variable that holds it in model.api_key_env."
    model = f"model.name ({context.model!r}) and " if context.model else ""
    remedy = f"Check {model}model.base_url in the run file."
    if status == 404 and context.url_hint:
        remedy += f" {context.url_hint}"
    return remedy


def body_error(content: bytes, context: CallContext) -> CallError | None:
    """Return the error that the body of a successful response reports, or None if it has none.

    OpenRouter and gateways report failures of their providers in this way, in the body or in a
    choice. The code is an HTTP status (https://openrouter.ai/docs/api/reference/errors).
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    for container in (body, *_dicts(body.get("choices"))):
        error = container.get("error")
        if not isinstance(error, dict):
            continue
        code = str(error.get("code"))
        if re.fullmatch("[45][0-9]{2}", code):
            call_error = status_error(int(code), {}, error, context)
        elif code in CODES:
            _, text = _parse_error_body(error)
            call_error = code_error(code, f"{context.endpoint}: {context.mask_secrets(text)}")
        else:
            continue
        call_error.billed = container is not body  # the model has begun to answer
        return call_error
    return None


def code_error(code: str, message: str) -> CallError:
    """Return the error for a code in the body of a successful response."""
    treatment = CODES.get(code, "rejected")
    if treatment == "filtered":
        return PromptRefused(message)
    if treatment == "too long":
        return PromptTooLong(message)
    if treatment == "no credit" or treatment == "unsupported":
        return FatalCallError(message, ACCOUNT_REMEDY)
    return _make_error(treatment, message, ACCOUNT_REMEDY)


def _google_details(details: object) -> _GoogleDetails:
    reasons = set[str]()
    daily = False
    wait_s = None
    for detail in _dicts(details):
        reasons.add(str(detail.get("reason")))
        if wait_s is None and "retryDelay" in detail:
            wait_s = parse_duration(str(detail["retryDelay"]))
        for violation in _dicts(detail.get("violations")):
            daily |= "PerDay" in str(violation.get("quotaId"))
    return _GoogleDetails(frozenset(reasons), daily, wait_s)


def _dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list of JSON, or [] for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _make_error(
    treatment: Treatment, message: str, remedy: str, retry_after: float | None = None
) -> CallError:
    if treatment == "rejected":
        return RequestRejected(message)
    if treatment == "fatal":
        return FatalCallError(message, remedy)
    return TransientError(message, kind=treatment, retry_after=retry_after)


def _parse_error_body(body: object) -> tuple[dict[str, Any], str]:
    """Return the error object in a response's body ({} if there is none), and its message."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
    if isinstance(body, bytes | str):
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            return {}, text
    detail = body if isinstance(body, dict) else {}
    if isinstance(detail.get("error"), dict):
        detail = detail["error"]
    return detail, str(detail.get("message") or text or "no explanation")


def _is_filtered(failure: _Failure) -> bool:
    """Return whether a content filter has refused the prompt."""
    if failure.code_treatment == "filtered":
        return True
    if any(phrase in failure.text for phrase in FILTER_PHRASES):
        return True
    inner = failure.detail.get("innererror")
    if isinstance(inner, dict) and CODES.get(str(inner.get("code"))) == "filtered":
        return True
    for choice in _dicts(failure.detail.get("choices")):  # Azure: a completion with status 400
        if choice.get("finish_reason") == "content_filter":
            return True
    metadata = failure.detail.get("metadata")
    return isinstance(metadata, dict) and ("flagged_input" in metadata or "reasons" in metadata)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait that the headers ask for, at most a month (None: not stated)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (value := headers.get(name)) is None:
            continue
        with contextlib.suppress(ValueError):
            if (seconds := float(value) * unit) >= 0:
                return min(seconds, MAX_RESET_S)
            continue
        # Not a date, or without a zone.
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
            return min(max(0.0, seconds), MAX_RESET_S)
    return None


def _connection_error(error: Exception, context: CallContext) -> CallError:
    """Return the error for a timeout, or for a connection that was refused or broke."""
    # The aiohttp transport reports any broken or refused connection as a connect timeout; the
    # real cause is further down the chain.
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and len(chain) < 10:
        chain.append(cause)
    classes = {base.__name__ for link in chain for base in type(link).__mro__}
    is_broken = any(
        isinstance(link, OSError) and not isinstance(link, TimeoutError) for link in chain
    )
    if "TimeoutException" in classes and not is_broken and "ConnectTimeout" not in classes:
        return TransientError(f"{context.endpoint}: no answer in time.", kind="timed_out")
    reason = next((str(link) for link in reversed(chain) if str(link)), "the connection failed")
    reason = context.mask_secrets(reason)
    remedy = "Check model.base_url and the network."
    if "SSLCertVerificationError" in classes:
        remedy = "If you trust the server, set SSL_CERT_FILE to a file with its certificate."
    if classes & UNSENT_EXCEPTIONS:
        problem = f"Cannot reach {context.endpoint}: {reason}."
        return TransientError(problem, remedy, kind="unreachable")
    problem = f"The connection to {context.endpoint} broke: {reason}."
    return TransientError(problem, remedy, kind="connection_lost")


OnAllowances = Callable[[tuple[Allowance, ...]], None]  # called with a response's rate limits

MAX_RATE_LIMIT = 2**53  # largest rate limit that is not ignored as excessive
RATE_WINDOW_S = 60.0
MAX_RESET_S = 31 * 86_400.0  # a month; a reset further away is ignored

_DURATION = re.compile(
    r"(?=.)(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?"
    r"(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?",
    re.ASCII,
)
_UNIT_SECONDS = (86_400, 3_600, 60, 1, 0.001)


def read_allowances(headers: Mapping[str, str], now: float) -> tuple[Allowance, ...]:
    """Return the rate limits that a response's headers report. ``now`` is the current Unix time.

    OpenAI and many others send ``x-ratelimit-limit-requests``, ``-remaining-`` and ``-reset-``. A
    reset is a duration (``6m0s``, ``20ms``) or, for some, a plain number of seconds. Anthropic
    sends ``anthropic-ratelimit-requests-limit`` and so on, where a reset is a time (RFC 3339).

    Not every limit is per minute: Groq's ``limit-requests`` is per day, its ``limit-tokens`` per
    minute, and only the reset distinguishes them. A reset more than a minute away implies a longer
    window: such a limit is ignored, as are invalid, negative, infinite and excessive values.
    """
    limits = []
    for unit in ("requests", "tokens", "input_tokens", "output_tokens"):
        name = unit.replace("_", "-")
        for form in (f"anthropic-ratelimit-{name}-%s", f"x-ratelimit-%s-{name}"):
            limit = _parse_count(headers.get(form % "limit"))
            remaining = _parse_count(headers.get(form % "remaining"))
            reset_s = _seconds_to_reset(headers.get(form % "reset"), now)
            if (limit, remaining, reset_s) != (None, None, None):
                if reset_s is not None and reset_s > RATE_WINDOW_S:
                    limit = None
                limits.append(Allowance(unit, limit, remaining, reset_s))
                break
    return tuple(limits)


def _parse_count(value: str | None) -> int | None:
    if (
        value is None
        or not re.fullmatch(r"\d{1,16}", value, re.ASCII)
        or int(value) > MAX_RATE_LIMIT
    ):
        return None
    return int(value)


def _seconds_to_reset(value: str | None, now: float) -> float | None:
    """Return the seconds until a reset, from a duration or time (None: invalid or too far)."""
    seconds = parse_duration(value or "")
    with contextlib.suppress(ValueError, OverflowError):
        if seconds is None and (time := datetime.fromisoformat(value or "")).tzinfo:
            seconds = max(0.0, time.timestamp() - now)
    return seconds if seconds is not None and seconds <= MAX_RESET_S else None


def parse_duration(value: str) -> float | None:
    """Convert a duration such as ``1h2m3.5s`` or ``59.7`` to seconds, or return None if invalid."""
    if len(value) > 40:
        return None
    if match := _DURATION.fullmatch(value):
        return sum(
            float(n) * unit for n, unit in zip(match.groups(), _UNIT_SECONDS, strict=True) if n
        )
    return float(value) if re.fullmatch(r"\d+(?:\.\d+)?", value, re.ASCII) else None
