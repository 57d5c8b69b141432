"""The paths that no provider has: counters, and changing the weather while it serves.

``GET /stats``, ``GET /stats/bodies``, ``POST /stats/reset``,
``GET /faults`` and ``POST /faults`` with ``{"faults": {"503": 1}, "latency": 0.1,
"limits": {"requests_per_minute": 600}}``, each key optional, ``{}`` for ``faults`` or
``limits`` ending them all. None of these is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from harness.mock.connection import Connection
from harness.mock.errors import MockError
from harness.mock.faults import FaultMix
from harness.mock.latency import Latency
from harness.mock.limits import Limits, RateLimits
from harness.mock.stats import Stats


class Weather(msgspec.Struct, forbid_unknown_fields=True):
    """What ``/faults`` tells and takes; None leaves a thing as it is.

    limits: all of them; what is not among them is without limit.
    """

    faults: dict[str, float] | None = None
    latency: float | str | None = None
    limits: Limits | None = None


class Controlled(Protocol):
    """What is controlled: the provider."""

    faults: FaultMix
    latency: Latency
    limits: RateLimits
    stats: Stats


def change(provider: Controlled, weather: Weather) -> None:
    """Exchange faults, latency and limits for the requests from now on.

    New limits count from nothing. Raises: MockError; nothing is changed then.
    """
    faults = provider.faults if weather.faults is None else FaultMix.of(weather.faults)
    latency = provider.latency if weather.latency is None else Latency.of(weather.latency)
    provider.faults, provider.latency = faults, latency
    if weather.limits is not None:
        provider.limits = RateLimits(weather.limits)


class Control:
    """Answers everything that is not meant for a provider."""

    def __init__(self, provider: Controlled) -> None:
        self._provider = provider
        self._routes: dict[tuple[str, str], Callable[[bytes], Any]] = {
            ("GET", "/stats"): lambda _: provider.stats.snapshot(),
            ("GET", "/stats/bodies"): lambda _: provider.stats.by_body(),
            ("POST", "/stats/reset"): self._reset,
            ("GET", "/faults"): lambda _: self._weather(),
            ("POST", "/faults"): self._change,
        }

    async def serve(self, method: str, path: str, body: bytes, connection: Connection) -> None:
        """Answer one request."""
        route = self._routes.get((method, path))
        status = 200
        if route is None:
            status, answer = 404, _error(f"Invalid URL ({method} {path})")
        else:
            try:
                answer = route(body)
            except (MockError, msgspec.MsgspecError) as error:
                status, answer = 400, _error(str(error))
        await connection.answer(status, msgspec.json.encode(answer), [])

    def _reset(self, _: bytes) -> object:
        self._provider.stats.reset()
        return self._provider.stats.snapshot()

    def _weather(self) -> Weather:
        provider = self._provider
        shares = {fault.value: share for fault, share in provider.faults.shares.items()}
        return Weather(shares, str(provider.latency), provider.limits.limits)

    def _change(self, body: bytes) -> Weather:
        change(self._provider, msgspec.json.decode(body, type=Weather))
        return self._weather()


def _error(message: str) -> dict[str, Any]:
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    }
