"""Anthropic's way with keys, versions, errors and limits.

As the API is from version 2026-10-21 on. The SDK sends its key as a bearer
token since then; where a request has ``x-api-key`` too, that one counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from harness.mock.limits import Level
from harness.mock.wire import Headers, Problem, bearer, header

VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
WITHOUT_SAMPLING = "2026-10-21"
"""Since this version, no request may have a sampling parameter."""
SAMPLING = frozenset({"temperature", "top_p", "top_k"})

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    529: "overloaded_error",
}


class Anthropic:
    """The `Vendor`."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()

    def credential(self, headers: Headers) -> str | None:
        """The key, from ``x-api-key`` or else the bearer token."""
        return header(headers, b"x-api-key") or bearer(headers)

    def version(self, headers: Headers) -> str:
        """The version of the API that a request is written for. Raises: Problem (400)."""
        version = header(headers, b"anthropic-version")
        if version is None:
            raise self.invalid("anthropic-version: header is required")
        if version not in VERSIONS:
            raise self.invalid(f'anthropic-version: "{version}" is not a valid version')
        return version

    def models(self, names: Collection[str]) -> bytes:
        """The list of the models there are: one page."""
        models = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "1970-01-01T00:00:00Z",
                "lifecycle": "active",
            }
            for name in names
        ]
        first, *_, last = [*names, *names]
        page = {"data": models, "has_more": False, "first_id": first, "last_id": last}
        return self._encoder.encode(page)

    def headers(
        self, request_id: str, levels: Sequence[Level], retry_after: float | None = None
    ) -> Headers:
        """``request-id``, ``anthropic-ratelimit-{unit}-{limit,remaining,reset}``, waiting.

        Waiting is told in whole seconds, rounded up: there is no finer header.
        """
        headers = [(b"request-id", request_id.encode())]
        for level in _told(levels) if levels else ():
            figures = {
                "limit": str(level.limit),
                "remaining": str(level.remaining),
                "reset": _moment(level.reset_s),
            }
            unit = level.unit.replace(" ", "-")
            for name, value in figures.items():
                headers.append((f"anthropic-ratelimit-{unit}-{name}".encode(), value.encode()))
        if retry_after:
            headers.append((b"retry-after", b"%d" % math.ceil(retry_after)))
        return headers

    def error(self, problem: Problem, request_id: str) -> bytes:
        """The body of an error."""
        body = {"type": "error", "error": problem.error, "request_id": request_id}
        return self._encoder.encode(body)

    def unauthorised(self, headers: Headers) -> Problem:
        """The key is missing or wrong."""
        if header(headers, b"x-api-key"):
            message = "invalid x-api-key"
        elif bearer(headers):
            message = "Invalid bearer token"
        else:
            message = "x-api-key header is required"
        return Problem(401, _error(401, message))

    def unknown_model(self, model: str) -> Problem:
        """There is no such model."""
        return Problem(404, _error(404, f"model: {model}"))

    def invalid(self, message: str, code: str | None = None) -> Problem:
        """The request makes no sense."""
        return Problem(400, _error(400, message, code))

    def refused(self, parameter: str, value: object) -> Problem | None:
        """A newer model's answer to a request that is written for the older version."""
        if parameter in SAMPLING:
            return self.invalid(f"`{parameter}` is deprecated for this model.")
        return self.unknown_parameter(parameter)

    def unknown_parameter(self, parameter: str) -> Problem:
        """There is no such parameter."""
        return self.invalid(f"{parameter}: Extra inputs are not permitted")

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> Problem:
        """A rate limit is reached."""
        figures = (
            f" of {level.limit:,} {level.unit} per minute (org: mock, model: {model})"
            if level
            else ""
        )
        message = (
            f"This request would exceed your organization's rate limit{figures}. For details, "
            "refer to: https://docs.claude.com/en/api/rate-limits. You can see the response "
            "headers for current usage. Please reduce the prompt length or the maximum tokens "
            "requested, or try again later. You may also contact sales at "
            "https://claude.com/contact-sales to discuss your options for a rate limit increase."
        )
        return Problem(429, _error(429, message), retry_after)

    def failed(self, status: int) -> Problem:
        """The provider itself failed."""
        message = "Overloaded" if status == 529 else "Internal server error"
        return Problem(status, _error(status, message))


def _error(status: int, message: str, code: str | None = None) -> Mapping[str, object]:
    error: dict[str, object] = {"type": _KINDS.get(status, "api_error"), "message": message}
    if code is not None:
        error["details"] = {"error_code": code}
    return error


def _told(levels: Sequence[Level]) -> Sequence[Level]:
    """The limits, and where none is on all tokens, input's and output's added up: so the API."""
    units = {level.unit: level for level in levels}
    read, written = units.get("input tokens"), units.get("output tokens")
    if "tokens" in units or read is None or written is None:
        return levels
    limit, used = read.limit + written.limit, read.used + written.used
    reset_s = max(read.reset_s, written.reset_s)
    return [*levels, Level("tokens", limit, used, wanted=0, wait_s=0.0, reset_s=reset_s)]


def _moment(seconds: float) -> str:
    """A time from now, to the second and not before it."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    if moment.microsecond:
        moment += timedelta(seconds=1)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
