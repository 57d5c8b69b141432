"""The provider as an ASGI application: what happens to a request, in order.

Luck is drawn, key, body and model are checked, rate limits are asked, the
latency passes, and then the answer is sent or the drawn fault happens. What is
refused at the door (a wrong key, a body that makes no sense, an unknown model,
a parameter that the model does not take, a rate limit) is refused at once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from harness.mock.answers import Answer, Answerer, invented
from harness.mock.anthropic import Anthropic
from harness.mock.anthropic_messages import AnthropicMessages
from harness.mock.connection import Connection, Receive, Scope, Send
from harness.mock.control import Control
from harness.mock.draws import draw
from harness.mock.errors import NoAnswer
from harness.mock.faults import Fault, FaultMix
from harness.mock.latency import Latency
from harness.mock.limits import RateLimits
from harness.mock.logprobs import positions
from harness.mock.openai import OpenAI
from harness.mock.openai_chat import OpenAIChat
from harness.mock.openai_completions import OpenAICompletions
from harness.mock.reasoning import Reasoning, endless, thought
from harness.mock.stats import BodyCount, Stats
from harness.mock.wire import Ask, Choice, Headers, Problem, Wire, cut, header

DEFAULT_MODEL = "mock-model"
"""What is listed where the server takes any model."""

_REFUSAL = "I'm sorry, but I can't help with that."
# Answers that are well formed and yet not what was asked for.
_INSTEAD = {
    Fault.EMPTY: Choice(""),
    Fault.REFUSAL: Choice(_REFUSAL, "refusal"),
    Fault.CONTENT_FILTER: Choice("", "content_filter"),
}


def wires(reasoning: Reasoning | None) -> tuple[Wire, ...]:
    """The wire formats that are spoken."""
    openai = OpenAI()
    return (
        OpenAIChat(openai, reasoning),
        OpenAICompletions(openai, reasoning),
        AnthropicMessages(Anthropic(), reasoning),
    )


class Provider:
    """The application. `faults`, `latency` and `limits` may be exchanged while it serves."""

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
        reasoning: Reasoning | None = None,
        refuse: Collection[str] = (),
    ) -> None:
        self.faults = faults
        self.latency = latency
        self.limits = limits or RateLimits()
        self.stats = Stats()
        self._models = models
        self._seed = seed
        self._answerer = answerer
        self._api_key = api_key
        self._retry_after = retry_after
        self._reasoning = reasoning
        self._refuse = refuse
        self._wires = {wire.path: wire for wire in wires(reasoning)}
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
        count = self.stats.arrive(digest, wire.path)
        request_id = f"req_{digest}{count.requests:04d}"
        luck = draw(self._seed, digest, count.requests)
        fault = self.faults.pick(luck.fault)
        model = None
        try:
            ask = self._admit(wire, headers, body, digest)
            model = ask.model
            self.stats.recognise(model)
            choices = self._choices(wire, ask, fault)
            self._limit(wire, ask, choices, fault)
        except Problem as problem:
            await self._refuse_with(wire, problem, request_id, model, connection)
            return
        seconds = self.latency.seconds(luck.latency)
        if seconds > 0 and await connection.left_within(seconds):
            self.stats.abandon()
            return
        if fault is not None:
            self.stats.by_fault[fault.value] += 1
        if fault is not None and fault.status is not None:
            failure = self._problem(fault, wire, ask)
            await self._refuse_with(wire, failure, request_id, model, connection)
            return
        reply = wire.answer(ask, choices, int(time.time()))
        told = wire.vendor.headers(request_id, self.limits.levels(model))
        if fault is None or fault.is_answer:
            self._count_answer(ask, choices, count)
            await connection.answer(200, reply, told)
        else:
            await self._break(fault, reply, told, connection)

    def _admit(self, wire: Wire, headers: Headers, body: bytes, digest: str) -> Ask:
        self._authorise(wire, headers)
        ask = wire.read(body, digest, headers)
        if self._models and ask.model not in self._models:
            raise wire.vendor.unknown_model(ask.model)
        if self._refuse:
            self._check_parameters(wire, body)
        return ask

    def _authorise(self, wire: Wire, headers: Headers) -> None:
        if self._api_key is not None and wire.vendor.credential(headers) != self._api_key:
            raise wire.vendor.unauthorised(headers)

    def _check_parameters(self, wire: Wire, body: bytes) -> None:
        sent = msgspec.json.decode(body, type=dict[str, object])
        for name in self._refuse:
            value = sent.get(name)
            problem = None if value is None else wire.vendor.refused(name, value)
            if problem is not None:
                raise problem

    def _choices(self, wire: Wire, ask: Ask, fault: Fault | None) -> list[Choice]:
        try:
            answers = [self._answerer(ask, index) for index in range(ask.n)]
        except NoAnswer as missing:
            # Not a 404: clients read that as a missing model and give up altogether.
            raise wire.vendor.invalid(str(missing), "no_recorded_answer") from None
        if fault in _INSTEAD:
            return [_INSTEAD[fault]] * ask.n
        if fault is Fault.REASONING_ONLY:
            return [endless(ask)] * ask.n
        return [self._choice(ask, index, answer) for index, answer in enumerate(answers)]

    def _choice(self, ask: Ask, index: int, answer: str | Answer) -> Choice:
        said = answer if isinstance(answer, Answer) else Answer(answer)
        reasoning = "" if self._reasoning is None or not ask.reasons else thought(ask, index)
        choice = cut(said.text, ask.max_tokens, ask.stop, reasoning)
        if ask.logprobs is None:
            return choice
        told = positions(choice.text, said.logprobs, ask.logprobs)
        return replace(choice, positions=told[: ask.max_tokens])

    def _limit(self, wire: Wire, ask: Ask, choices: Sequence[Choice], fault: Fault | None) -> None:
        if fault is not None and fault.status is not None:
            read = written = 0  # It fails before the model runs, but it is a request.
        else:
            read, written = ask.prompt_tokens, sum(choice.tokens for choice in choices)
        broken = self.limits.admit(ask.model, read, written)
        if broken is not None:
            raise wire.vendor.rate_limited(ask.model, broken, broken.wait_s)
        self.stats.peak.add(read, written)

    def _count_answer(self, ask: Ask, choices: Sequence[Choice], count: BodyCount) -> None:
        self.stats.leave(200)
        self.stats.prompt_tokens += ask.prompt_tokens
        self.stats.completion_tokens += sum(choice.tokens for choice in choices)
        if any(choice.text or choice.finish == "content_filter" for choice in choices):
            count.answered += 1
            self.stats.answered += 1

    async def _break(
        self, fault: Fault, reply: bytes, headers: Headers, connection: Connection
    ) -> None:
        match fault:
            case Fault.RESET:
                self.stats.leave()
                await connection.reset()
            case Fault.STALL:
                await connection.gone()
                self.stats.abandon()
            case Fault.STALL_BODY:
                await connection.answer_half(reply, headers)
                await connection.gone()
                self.stats.abandon(200)
            case Fault.TRICKLE:
                await connection.trickle(reply, headers)
                self.stats.abandon(200)
            case Fault.TRUNCATED_BODY:
                self.stats.leave(200)
                await connection.answer_half(reply, headers)
                await connection.cut()
            case Fault.INVALID_JSON:
                self.stats.leave(200)
                await connection.answer(200, reply[: len(reply) // 2], headers)

    def _problem(self, fault: Fault, wire: Wire, ask: Ask) -> Problem:
        match fault:
            case Fault.BAD_REQUEST:
                return wire.vendor.invalid("The mock provider was told to reject this request.")
            case Fault.RATE_LIMITED:
                return wire.vendor.rate_limited(ask.model, None, self._retry_after)
        assert fault.status is not None
        return wire.vendor.failed(fault.status)

    async def _refuse_with(
        self,
        wire: Wire,
        problem: Problem,
        request_id: str,
        model: str | None,
        connection: Connection,
    ) -> None:
        vendor = wire.vendor
        levels = [] if model is None else self.limits.levels(model)
        headers = vendor.headers(request_id, levels, problem.retry_after)
        self.stats.leave(problem.status)
        await connection.answer(problem.status, vendor.error(problem, request_id), headers)

    async def _list_models(self, headers: Headers, connection: Connection) -> None:
        # Both vendors list at the same path; only one has this header.
        anthropic = header(headers, b"anthropic-version") is not None
        wire = self._wires[AnthropicMessages.path if anthropic else OpenAIChat.path]
        told = wire.vendor.headers("req_models", [])
        try:
            self._authorise(wire, headers)
        except Problem as problem:
            body = wire.vendor.error(problem, "req_models")
            await connection.answer(problem.status, body, told)
        else:
            body = wire.vendor.models(self._models or [DEFAULT_MODEL])
            await connection.answer(200, body, told)
