"""The provider as an ASGI application: what happens to a request, in order.

Key, model and body are checked, rate limits are asked, luck is drawn, the
latency passes, and then the answer is sent or the drawn fault happens. What is
refused at the door (a wrong key, an unknown model, a body that makes no sense,
a rate limit) is refused at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from hashlib import blake2b

from harness.mock.answers import Answerer, invented
from harness.mock.connection import Connection, Receive, Scope, Send
from harness.mock.control import Control
from harness.mock.draws import draw
from harness.mock.errors import NoAnswer
from harness.mock.faults import Fault, FaultMix
from harness.mock.latency import Latency
from harness.mock.limits import RateLimits
from harness.mock.openai_chat import OpenAIChat
from harness.mock.stats import BodyCount, Stats
from harness.mock.wire import Ask, Choice, Headers, Problem, Wire, cut

WIRES: tuple[type[Wire], ...] = (OpenAIChat,)
"""The wire formats that are spoken."""

DEFAULT_MODEL = "mock-model"
"""What is listed where the server takes any model."""

_REFUSAL = "I'm sorry, but I can't help with that."
# Answers that are well formed and yet not what was asked for.
_INSTEAD = {
    Fault.EMPTY: Choice(""),
    Fault.REFUSAL: Choice(_REFUSAL, "refusal"),
    Fault.CONTENT_FILTER: Choice("", "content_filter"),
}


class Provider:
    """The application. `faults` and `latency` may be exchanged while it serves."""

    def __init__(
        self,
        *,
        faults: FaultMix,
        latency: Latency,
        seed: int = 0,
        answerer: Answerer = invented,
        limits: RateLimits | None = None,
        api_key: str | None = None,
        models: Collection[str] = (),
        retry_after: float | None = 1.0,
    ) -> None:
        self.faults = faults
        self.latency = latency
        self.stats = Stats()
        self._models = models
        self._seed = seed
        self._answerer = answerer
        self._limits = limits or RateLimits()
        self._api_key = api_key
        self._retry_after = retry_after
        self._wires: dict[str, Wire] = {wire.path: wire for wire in (kind() for kind in WIRES)}
        self._control = Control(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        connection = Connection(scope, receive, send)
        body = await connection.body()
        if body is None:
            return
        method, path = scope["method"], scope["path"]
        if method == "POST" and (wire := self._wires.get(path)):
            await self._serve(wire, scope["headers"], body, connection)
        elif method == "GET" and path == "/v1/models":
            await self._list_models(scope["headers"], connection)
        else:
            await self._control.serve(method, path, body, connection)

    async def _serve(
        self, wire: Wire, headers: Headers, body: bytes, connection: Connection
    ) -> None:
        digest = blake2b(body, digest_size=8).hexdigest()
        count = self.stats.arrive(digest)
        try:
            ask = self._admit(wire, headers, body, digest)
            choices = self._choices(wire, ask)
            self._limit(wire, ask, choices)
        except Problem as problem:
            await self._refuse(wire, problem, connection)
            return
        luck = draw(self._seed, digest, count.requests)
        seconds = self.latency.seconds(luck.latency)
        if seconds > 0 and await connection.left_within(seconds):
            self.stats.abandon()
            return
        fault = self.faults.pick(luck.fault)
        if fault is None:
            await self._answer(wire, ask, choices, count, connection)
        else:
            self.stats.by_fault[fault.value] += 1
            await self._fail(fault, wire, ask, choices, count, connection)

    def _admit(self, wire: Wire, headers: Headers, body: bytes, digest: str) -> Ask:
        self._authorise(wire, headers)
        ask = wire.read(body, digest)
        if self._models and ask.model not in self._models:
            raise wire.unknown_model(ask.model)
        return ask

    def _authorise(self, wire: Wire, headers: Headers) -> None:
        if self._api_key is not None:
            credential = wire.credential(headers)
            if credential != self._api_key:
                raise wire.unauthorised(credential)

    def _choices(self, wire: Wire, ask: Ask) -> list[Choice]:
        try:
            return [cut(self._answerer(ask, index), ask.max_tokens) for index in range(ask.n)]
        except NoAnswer as missing:
            # Not a 404: clients read that as a missing model and give up altogether.
            raise wire.invalid(str(missing), "no_recorded_answer") from None

    def _limit(self, wire: Wire, ask: Ask, choices: Sequence[Choice]) -> None:
        broken = self._limits.admit(ask.prompt_tokens + sum(c.tokens for c in choices))
        if broken is not None:
            raise wire.rate_limited(ask.model, broken, broken.wait_s)

    async def _fail(
        self,
        fault: Fault,
        wire: Wire,
        ask: Ask,
        choices: Sequence[Choice],
        count: BodyCount,
        connection: Connection,
    ) -> None:
        if fault.status is not None:
            await self._refuse(wire, self._problem(fault, wire, ask), connection)
            return
        if fault in _INSTEAD:
            instead = [_INSTEAD[fault]] * ask.n
            await self._answer(wire, ask, instead, count, connection)
            return
        headers = wire.limit_headers(self._limits.levels())
        body = wire.answer(ask, choices, _now())
        match fault:
            case Fault.RESET:
                self.stats.leave()
                await connection.reset()
            case Fault.STALL:
                await connection.gone()
                self.stats.leave()
            case Fault.STALL_BODY:
                await connection.answer_half(body, headers)
                await connection.gone()
                self.stats.leave(200)
            case Fault.TRUNCATED_BODY:
                self.stats.leave(200)
                await connection.answer_half(body, headers)
                await connection.cut()
            case Fault.INVALID_JSON:
                self.stats.leave(200)
                await connection.answer(200, body[: len(body) // 2], headers)

    def _problem(self, fault: Fault, wire: Wire, ask: Ask) -> Problem:
        match fault:
            case Fault.BAD_REQUEST:
                return wire.invalid("The mock provider was told to reject this request.")
            case Fault.RATE_LIMITED:
                return wire.rate_limited(ask.model, None, self._retry_after)
        assert fault.status is not None
        return wire.failed(fault.status)

    async def _answer(
        self,
        wire: Wire,
        ask: Ask,
        choices: Sequence[Choice],
        count: BodyCount,
        connection: Connection,
    ) -> None:
        self.stats.leave(200)
        self.stats.prompt_tokens += ask.prompt_tokens
        self.stats.completion_tokens += sum(choice.tokens for choice in choices)
        if any(choice.text or choice.finish == "content_filter" for choice in choices):
            count.answered += 1
            self.stats.answered += 1
        body = wire.answer(ask, choices, _now())
        await connection.answer(200, body, wire.limit_headers(self._limits.levels()))

    async def _refuse(self, wire: Wire, problem: Problem, connection: Connection) -> None:
        headers = wire.limit_headers(self._limits.levels())
        if problem.retry_after:
            headers.append(_retry_after(problem.retry_after))
        self.stats.leave(problem.status)
        await connection.answer(problem.status, problem.body, headers)

    async def _list_models(self, headers: Headers, connection: Connection) -> None:
        wire = self._wires[OpenAIChat.path]
        try:
            self._authorise(wire, headers)
        except Problem as problem:
            await connection.answer(problem.status, problem.body, [])
        else:
            await connection.answer(200, wire.models(self._models or [DEFAULT_MODEL]), [])


def _now() -> int:
    return int(time.time())


def _retry_after(seconds: float) -> tuple[bytes, bytes]:
    # The standard header knows whole seconds only; OpenAI has one for the rest.
    if seconds == int(seconds):
        return b"retry-after", b"%d" % seconds
    return b"retry-after-ms", b"%d" % math.ceil(seconds * 1000)
