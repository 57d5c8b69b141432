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
UNSENT = frozenset({"ClientConnectorError", "ConnectionTimeoutError", "ConnectError", "ProxyError"})

NO_CREDIT = "The account has no credit left."
QUOTA = "Run it again when the quota is renewed, or raise it."
# Words in messages that have no code of their own, and what to do: they end the run.
SPENT_WORDS = {
    "credit balance is too low": NO_CREDIT,  # Anthropic, with status 400
    "reached your specified API usage limits": QUOTA,  # Anthropic, with status 400
    "Too many tokens per day": QUOTA,  # Bedrock, with status 429
    "reached its monthly spending limit": NO_CREDIT,  # xAI, with status 403 or 429
    # LiteLLM's proxy, which drops the code. Google uses these words for limits per minute, too.
    "OpenAIException - You exceeded your current quota": NO_CREDIT,
}
CROWDED = re.compile(
    r"concurrency|concurrent (connections|requests)|type: max_parallel_requests"
    r"|max_parallel_requests=|(?<!/ )max parallel request",
    re.IGNORECASE,
)
"""Words in messages, with status 429, about the number of calls in flight.

Among others of Anthropic, Moonshot and LiteLLM's proxy. The proxy of before 2025 names all limits
in one message, which is not meant.
"""
TOO_LONG = re.compile(
    r"(prompt|input|request|message) is too long|reduce (the length|your prompt)"
    r"|context[ _](length|window|size)|maximum (prompt|input|model) length|max_model_len"
    r"|input token count.* exceeds|maximum number of (input )?tokens",
    re.IGNORECASE,
)
"""Words in messages about prompts that are too long, for which many servers have no code."""

# Words in Anthropic's messages, since it has no error code for unsupported parameters.
UNSUPPORTED_WORDS = ("Extra inputs are not permitted", "is deprecated for this model")
OTHER_NAME = "max_completion_tokens"  # which a server may require instead of max_tokens
FILTER_WORDS = (
    "flagged as potentially violating our usage policy",  # OpenAI's reasoning models
    "blocked by content filtering policy",  # Anthropic
    "Content Exists Risk",  # DeepSeek
    "ContentPolicyViolationError",  # LiteLLM proxies
)

UNKNOWN_MODEL = "Invalid model name passed in model="  # LiteLLM's proxy, with status 400
ACCOUNT = "Check the account, and model.base_url in the run file."
MASK = "[key]"  # replaces a key that a server sends back
_ESCAPE = re.compile(  # of a key's character
    r'(?:\\+u00|\\+x|%(?:25)*|=)([2-7][0-9a-fA-F])|\\+([/"])'
)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
LEAST_PART = 12  # characters; a shorter part of a key may be a word


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

    def without_key(self, text: str) -> str:
        """Return at most 500 characters of text, without the secrets, their parts and encodings."""
        decoded = _decoded(text)
        secrets = self.all_secrets
        if any(_shared(decoded, secret, 0) >= 0 or secret in decoded for secret in secrets):
            text = decoded
        for secret in secrets:  # before cutting
            text = _without_parts(text.replace(secret, MASK), secret)
            for encoded in _encodings(secret):
                text = re.sub(re.escape(encoded), MASK, text, flags=re.IGNORECASE)
        return " ".join(text.split())[:500]


def _decoded(text: str) -> str:
    """Return text without escapes of several kinds and without invisible characters."""
    text = _INVISIBLE.sub("", unescape(text))
    for _ in range(2):  # a URL in a URL is escaped twice
        text = _ESCAPE.sub(lambda escape: escape[2] or chr(int(escape[1], 16)), text)
    return text


def _encodings(secret: str) -> Iterator[str]:
    """Yield a secret in hexadecimal and in Base64, wherever it lies in an encoded text."""
    if len(secret) < LEAST_PART:  # too short to be told from other text
        return
    content = secret.encode()
    yield content.hex()
    for before in range(3):  # bytes
        encoded = b64encode(bytes(before) + content).decode().rstrip("=")
        start = (0, 2, 3)[before]  # the characters before depend on other bytes, too
        end = len(encoded) - bool((before + len(content)) % 3)
        yield encoded[start:end]
        yield encoded[start:end].replace("+", "-").replace("/", "_")


def _without_parts(text: str, secret: str) -> str:
    """Replace the parts of a secret that have at least `LEAST_PART` characters, in any case."""
    start = 0
    lowered = secret.translate(_LOWER)
    while (start := _shared(text, secret, start)) >= 0:
        end = start + LEAST_PART
        while end < len(text) and text[start : end + 1].translate(_LOWER) in lowered:
            end += 1
        text = f"{text[:start]}{MASK}{text[end:]}"
    return text


def _shared(text: str, secret: str, start: int) -> int:
    """Return where a part of a secret begins in text from ``start`` on, or -1; case is ignored."""
    text = text.translate(_LOWER)
    secret = secret.translate(_LOWER)
    parts = {secret[n : n + LEAST_PART] for n in range(len(secret) - LEAST_PART + 1)}
    places = [text.find(part, start) for part in parts]
    return min((place for place in places if place >= 0), default=-1)


def treatment_of(error: Exception) -> Treatment | Literal["by cause"] | None:
    """Return how an exception is treated, or None if it has no row in `EXCEPTIONS`."""
    for kind in type(error).__mro__:
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if name in EXCEPTIONS:
            return EXCEPTIONS[name]
    return None


def from_exception(error: Exception, context: CallContext) -> CallError | None:
    """Convert an exception of an SDK or transport to a CallError, or return None."""
    treatment = treatment_of(error)
    if treatment is None:
        return None
    if treatment == "by cause":
        return _connection(error, context)
    message = f"{context.endpoint}: {type(error).__name__}: {context.without_key(str(error))}"
    return _error(treatment, message, "The client is misconfigured.")


def from_sdk(error: Exception, context: CallContext) -> CallError | None:
    """Convert an SDK's exception like `from_exception`, or by its HTTP status or cause."""
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    if isinstance(status, int) and status >= 400 and response is not None:
        body = getattr(error, "body", None) or str(error)
        return from_status(status, response.headers, body, context)
    failure = None
    if type(error).__name__ in ("APIConnectionError", "APITimeoutError"):
        cause = error.__cause__
        failure = from_exception(cause, context) if isinstance(cause, Exception) else None
    return failure or from_exception(error, context)


def from_status(
    status: int, headers: Mapping[str, str], body: object, context: CallContext
) -> CallError:
    detail, text = _detail(body)
    details = detail.get("details")
    exact = details.get("error_code") if isinstance(details, dict) else None
    google = _google_details(details)
    codes = (exact, detail.get("code"), detail.get("type"), detail.get("status"))
    by_code = next((CODES[code] for code in map(str, codes) if code in CODES), None)
    text = context.without_key(text)
    message = f"{context.endpoint} answered {status}: {text}"
    if "API_KEY_INVALID" in google.reasons:
        status = 401
    if UNKNOWN_MODEL in text:
        status = 404
    if status == 429 and google.daily:
        return FatalCallError(message, QUOTA)
    for words, remedy in SPENT_WORDS.items():
        if words in text:
            return FatalCallError(message, remedy)
    if by_code == "no credit" or status == 402:
        return FatalCallError(message, NO_CREDIT)
    if by_code == "fatal":
        return FatalCallError(message, ACCOUNT)
    if status in (400, 403) and _filtered(by_code, text, detail):
        return PromptRefused(message)
    is_unsupported = by_code == "unsupported" or any(words in text for words in UNSUPPORTED_WORDS)
    if status == 400 and is_unsupported:
        remedy = "Remove it from decoding in the run file."
        if OTHER_NAME in text:
            remedy = f"Set model.preset: openai, which sends {OTHER_NAME} instead."
        return FatalCallError(message, remedy)
    treatment = STATUSES.get(status, "server_failed" if status >= 500 else "rejected")
    long = status == 413 or by_code == "too long" or TOO_LONG.search(text)
    if treatment == "rejected" and long:
        return PromptTooLong(message)
    name = f"model.name ({context.model!r}) and " if context.model else ""
    remedy = f"Check {name}model.base_url in the run file."
    if status == 404 and context.url_hint:
        remedy = f"{remedy} {context.url_hint}"
    if status in (401, 403):
        remedy = "No key was sent: name the variable that holds it in model.api_key_env."
        if context.key_variable:
            remedy = f"Check the key in the environment variable {context.key_variable}."
    if treatment == "fatal":
        return AccessDenied(message, remedy)
    if status == 429 and CROWDED.search(text):
        # LiteLLM's proxy always asks to wait for a minute: the end of any call is enough.
        return TransientError(message, kind="crowded")
    wait = _retry_after(headers)
    return _error(treatment, message, remedy, google.retry_after if wait is None else wait)


def from_body(content: bytes, context: CallContext) -> CallError | None:
    """Return the error that a successful response has in the place of an answer, or None.

    OpenRouter and gateways report failures of their providers in this way, with an HTTP status as
    the code, in the body or in a choice (https://openrouter.ai/docs/api/reference/errors).
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    choices = body.get("choices") if isinstance(body, dict) else None
    for part in (body, *(choices if isinstance(choices, list) else ())):
        error = part.get("error") if isinstance(part, dict) else None
        if not isinstance(error, dict):
            continue
        code = str(error.get("code"))
        if re.fullmatch("[45][0-9]{2}", code):
            failure = from_status(int(code), {}, error, context)
        elif code in CODES:
            _, text = _detail(error)
            failure = from_code(code, f"{context.endpoint}: {context.without_key(text)}")
        else:
            continue
        failure.billed = part is not body  # the model has begun to answer
        return failure
    return None


def from_code(code: str, message: str) -> CallError:
    """Return the error for a code in a successful response."""
    treatment = CODES.get(code, "rejected")
    if treatment == "filtered":
        return PromptRefused(message)
    if treatment == "too long":
        return PromptTooLong(message)
    if treatment == "no credit" or treatment == "unsupported":
        return FatalCallError(message, ACCOUNT)
    return _error(treatment, message, ACCOUNT)


@dataclass(frozen=True, slots=True)
class _GoogleDetails:
    """The facts in the list ``details`` of a Google API's error (https://google.aip.dev/193)."""

    reasons: frozenset[str] = frozenset()
    daily: bool = False  # whether a quota per day is used up
    retry_after: float | None = None


def _google_details(details: object) -> _GoogleDetails:
    reasons = set[str]()
    daily = False
    wait: float | None = None
    for detail in _dicts(details):
        reasons.add(str(detail.get("reason")))
        if wait is None and "retryDelay" in detail:
            wait = duration(str(detail["retryDelay"]))
        for violation in _dicts(detail.get("violations")):
            daily = daily or "PerDay" in str(violation.get("quotaId"))
    return _GoogleDetails(frozenset(reasons), daily, wait)


def _dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list of JSON, or [] for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _error(
    treatment: Treatment, message: str, remedy: str, retry_after: float | None = None
) -> CallError:
    if treatment == "rejected":
        return RequestRejected(message)
    if treatment == "fatal":
        return FatalCallError(message, remedy)
    return TransientError(message, kind=treatment, retry_after=retry_after)


def _detail(body: object) -> tuple[dict[str, Any], str]:
    """Return the error object in a response's body, and the error message."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
    if isinstance(body, bytes | str):
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            return {}, text
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    detail = body if isinstance(body, dict) else {}
    return detail, str(detail.get("message") or text or "no explanation")


def _filtered(treatment: str | None, text: str, detail: dict[str, Any]) -> bool:
    if treatment == "filtered" or any(words in text for words in FILTER_WORDS):
        return True
    inner = detail.get("innererror")
    if isinstance(inner, dict) and CODES.get(str(inner.get("code"))) == "filtered":
        return True
    for choice in _dicts(detail.get("choices")):  # Azure: a completion with status 400
        if choice.get("finish_reason") == "content_filter":
            return True
    metadata = detail.get("metadata")
    return isinstance(metadata, dict) and ("flagged_input" in metadata or "reasons" in metadata)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the headers ask to wait (at most a month), if any."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (value := headers.get(name)) is None:
            continue
        with contextlib.suppress(ValueError):
            if (seconds := float(value) * unit) >= 0:
                return min(seconds, LONGEST_S)
            continue
        # Not a date, or without a zone.
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
            return min(max(0.0, seconds), LONGEST_S)
    return None


def _connection(error: Exception, context: CallContext) -> CallError:
    # The aiohttp transport reports any broken or refused connection as a connect timeout; the
    # real cause is further down the chain.
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and len(chain) < 10:
        chain.append(cause)
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    broken = any(isinstance(link, OSError) and not isinstance(link, TimeoutError) for link in chain)
    if "TimeoutException" in names and not broken and "ConnectTimeout" not in names:
        return TransientError(f"{context.endpoint}: no answer in time.", kind="timed_out")
    reason = next((str(link) for link in reversed(chain) if str(link)), "the connection failed")
    reason = context.without_key(reason)
    remedy = "Check model.base_url and the network."
    if "SSLCertVerificationError" in names:
        remedy = "If you trust the server, set SSL_CERT_FILE to a file with its certificate."
    if names & UNSENT:
        problem = f"Cannot reach {context.endpoint}: {reason}."
        return TransientError(problem, remedy, kind="unreachable")
    problem = f"The connection to {context.endpoint} broke: {reason}."
    return TransientError(problem, remedy, kind="connection_lost")


OnAllowances = Callable[[tuple[Allowance, ...]], None]  # called with a response's rate limits

MOST = 2**53  # largest rate limit that is not ignored as excessive
WINDOW_S = 60.0
LONGEST_S = 31 * 86_400.0  # a month; a reset further away is ignored

_DURATION = re.compile(
    r"(?=.)(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?"
    r"(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?",
    re.ASCII,
)
_SECONDS = (86_400, 3_600, 60, 1, 0.001)


def allowances(headers: Mapping[str, str], now: float) -> tuple[Allowance, ...]:
    """Return the rate limits that are reported in a response's headers.

    ``now`` is the current Unix time.

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
            limit = _count(headers.get(form % "limit"))
            remaining = _count(headers.get(form % "remaining"))
            reset_s = _until(headers.get(form % "reset"), now)
            if (limit, remaining, reset_s) != (None, None, None):
                longer = reset_s is not None and reset_s > WINDOW_S
                limits.append(Allowance(unit, None if longer else limit, remaining, reset_s))
                break
    return tuple(limits)


def _count(value: str | None) -> int | None:
    if value is None or not re.fullmatch(r"\d{1,16}", value, re.ASCII) or int(value) > MOST:
        return None
    return int(value)


def _until(value: str | None, now: float) -> float | None:
    """Return the seconds to a reset, given a duration or time."""
    seconds = duration(value or "")
    with contextlib.suppress(ValueError, OverflowError):
        if seconds is None and (time := datetime.fromisoformat(value or "")).tzinfo:
            seconds = max(0.0, time.timestamp() - now)
    return seconds if seconds is not None and seconds <= LONGEST_S else None


def duration(value: str) -> float | None:
    """Return a duration such as ``1h2m3.5s`` or ``59.7`` in seconds, or None if it is invalid."""
    if len(value) > 40:
        return None
    if match := _DURATION.fullmatch(value):
        return sum(float(n) * unit for n, unit in zip(match.groups(), _SECONDS, strict=True) if n)
    return float(value) if re.fullmatch(r"\d+(?:\.\d+)?", value, re.ASCII) else None
