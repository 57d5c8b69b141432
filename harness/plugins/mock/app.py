"""The provider as an ASGI application: the steps of handling a request.

If a check of the request fails, the request is rejected immediately. Otherwise, after the drawn
latency, the answer is sent or the drawn fault happens.

Control requests use paths that no real provider has, and are not counted: ``GET /stats``,
``GET /stats/bodies``, ``POST /stats/reset``, ``GET /faults``, ``POST /faults`` (see `Conditions`).

For requests in batches, latency, rate limits, and faults other than errors and faulty texts do not
apply.
"""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from urllib.parse import parse_qs

import msgspec
from msgspec.structs import replace

from harness.plugins.mock import wire
from harness.plugins.mock.answers import (
    Answer,
    Answers,
    answerer,
    endless,
    positions,
    thought,
    truncate,
)
from harness.plugins.mock.anthropic import (
    AnthropicMessages,
    AnthropicVertex,
    AnthropicVertexStream,
    BedrockConverse,
    PromptCache,
)
from harness.plugins.mock.batches import (
    Answered,
    AnthropicBatches,
    BatchSettings,
    Reset,
    VendorBatches,
)
from harness.plugins.mock.faults import (
    ANSWERS,
    SPACES,
    STATUSES,
    Connection,
    Fault,
    FaultMix,
    Latency,
    Message,
    Receive,
    Send,
    altered,
    damaged,
    draw,
    gzip_bomb,
)
from harness.plugins.mock.gemini import UPLOAD_URL, GeminiBatches, GeminiContent
from harness.plugins.mock.openai import (
    END,
    OpenAIChat,
    OpenAICompletions,
    OpenAIResponses,
    error_object,
    scored,
)
from harness.plugins.mock.openai_batches import MistralBatches, OpenAIBatches
from harness.plugins.mock.stats import BodyCount, Limits, MockRateLimits, Stats
from harness.plugins.mock.wire import Headers, MockRequest, ModelCall, ReplyChoice, WireFormat

WIRE_FORMATS: tuple[type[WireFormat], ...] = (
    *(OpenAIChat, OpenAICompletions, OpenAIResponses, AnthropicMessages, AnthropicVertex),
    *(AnthropicVertexStream, GeminiContent, BedrockConverse),
)
CONSTRAINTS = ("response_format", "text", "structured_outputs", "output_config")
DEFAULT_MODEL = "mock-model"  # the only model listed by a server that accepts any model
_FALSE_LEVEL = wire.Level("requests", limit=10, used=10, reset_s=60)
_REJECTED: Mapping[Fault, str] = {
    "too_long": "prompt is too long: 213462 tokens > 200000 maximum",
    "filtered": "Output blocked by content filtering policy",
}
# Well-formed answers that are not what was requested.
_FAULTY_CHOICES = {
    "empty": ReplyChoice(""),
    "refusal": ReplyChoice("I'm sorry, but I can't help with that.", "refusal"),
    "content_filter": ReplyChoice("", "content_filter"),
    "same_answer": ReplyChoice("I always give this answer, whatever the seed. " * 3),
    "latin_1": ReplyChoice("Un café crème, s'il vous plaît."),
}


class Conditions(msgspec.Struct, forbid_unknown_fields=True):
    """Settings that can change while the server runs. They are also the JSON of ``/faults``.

    None leaves a setting as it is, and ``{}`` removes all faults or limits. New limits start with
    no usage.
    """

    faults: dict[str, float] | None = None
    fault_on: list[str] | None = None
    latency: float | str | None = None
    limits: Limits | None = None
    batch_faults: dict[str, float] | None = None
    batch_latency: float | str | None = None


class _Tokenised(msgspec.Struct):
    prompt: str = ""
    tokens: list[int] = []


class Provider:
    """The ASGI application that simulates a provider.

    Args:
        latency: Seconds, or a distribution of seconds (see `faults.LATENCY_FORMS`).
        faults: Probability (0 to 1) of each fault, by name (see `faults.FAULTS`).
        fault_on: Texts. If any is given, only prompts that contain one of them meet faults.
        seed: Seed for drawing faults and latencies.
        answers: The answers by last user message, a file of answers, or a function. An answer is a
            string, or an `Answer` with log-probabilities. By default, answers are made-up sentences
            that depend on the request's body.
        api_key: The only valid key. By default, any key is accepted.
        models: The known models. If empty, any model is accepted.
        retry_after: Seconds in the header retry-after of a 429 that was drawn or due to the limit
            ``parallel_requests``. None or 0 omits the header.
        reasoning: The form of reasoning in answers (see `wire.REASONING`). By default, there is
            none.
        refuse: Names of request parameters that every model rejects with a 400. ``schema:KEYWORD``
            rejects each decoding constraint that is a JSON schema with this keyword.
        batch_faults: Probability (0 to 1) of each fault of batches (see `faults.BATCH_FAULTS`).
        batch_latency: Seconds until a batch ends, in the form of ``latency``.
        enqueued_tokens: Maximum number of input tokens in OpenAI's unfinished batches.
        limits: Limits per model, as the fields of `Limits`. They do not apply to batches.

    Raises:
        MockError: If an option is invalid.
    """

    def __init__(
        self,
        *,
        latency: float | str = 0.0,
        faults: Mapping[str, float] | None = None,
        fault_on: Collection[str] = (),
        seed: int = 0,
        answers: Answers | None = None,
        api_key: str | None = None,
        models: Collection[str] = (),
        retry_after: float | None = 1.0,
        reasoning: str | None = None,
        refuse: Collection[str] = (),
        batch_faults: Mapping[str, float] | None = None,
        batch_latency: float | str = 0.0,
        enqueued_tokens: int | None = None,
        **limits: int | None,
    ) -> None:
        if reasoning not in (None, *wire.REASONING):
            forms = ", ".join(wire.REASONING)
            raise wire.MockError(f"Unknown form of reasoning: {reasoning!r}. Forms: {forms}.")
        self.stats = Stats()
        self._faults = FaultMix(faults or {}, fault_on)
        self._latency = Latency(latency)
        self._limits = MockRateLimits(Limits(**limits))
        self._seed = seed
        self._api_key = api_key
        self._retry_after = retry_after
        self._models = models
        self._refuse = refuse
        self._reasoning = reasoning
        self._answerer = answerer(answers)
        self._prompt_cache = PromptCache()
        self._vendors = {kind.path: kind(reasoning) for kind in WIRE_FORMATS}
        self._encode = msgspec.json.Encoder().encode
        self._batching = BatchSettings(seed)
        self._batching.change(batch_faults, batch_latency)
        self._batching.enqueued_tokens = enqueued_tokens
        shared = self._batching, self._process, self.stats
        openai = OpenAIBatches(*shared, self._admit_entry)
        gemini = GeminiBatches(*shared, self._admit_entry)
        self._batches: list[VendorBatches] = [AnthropicBatches(*shared)]
        self._batches += [MistralBatches(*shared, openai), openai, gemini]

    def change(self, conditions: Conditions) -> None:
        """Apply new settings to all future requests.

        Raises:
            MockError: If a setting is invalid. No setting is changed then.
        """
        faults = self._faults.changed(conditions.faults, conditions.fault_on)
        latency = self._latency if conditions.latency is None else Latency(conditions.latency)
        self._batching.change(conditions.batch_faults, conditions.batch_latency)
        self._faults = faults  # only now: an invalid setting changes none
        self._latency = latency
        if conditions.limits is not None:
            self._limits = MockRateLimits(conditions.limits)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one ASGI request, or fail with the drawn fault."""
        connection = Connection(scope, receive, send)
        headers = scope["headers"]
        body = await connection.body()
        route = f"{scope['method']} {scope['path']}"
        if body is None:
            return
        call = self._call(scope["path"], headers, body) if scope["method"] == "POST" else None
        if call is not None:
            with ExitStack() as slot:
                await self._serve(call, connection, slot)
        elif route == "GET /v1/models":
            await self._list_models(headers, connection)
        elif await self._serve_batch(scope, body, connection):
            return
        else:
            status, answer = self._control(route, body)
            await connection.answer(status, self._encode(answer), [])

    def _call(self, path: str, headers: Headers, body: bytes) -> ModelCall | None:
        """Return a call of a model, or None for a path at which none is served."""
        if vendor := self._vendors.get(path):
            return ModelCall(vendor, "", headers, body)
        for pattern, vendor in self._vendors.items():
            if model := wire.model_in(path, pattern):
                return ModelCall(vendor, model, headers, body)
        return None

    async def _serve(self, call: ModelCall, connection: Connection, slot: ExitStack) -> None:
        vendor = call.vendor
        count = self.stats.arrive(call.digest, vendor.path)
        request_id = f"req_{call.digest}{count.requests:04d}"
        for_fault, for_latency = draw(self._seed, call.digest, count.requests)
        request = None
        try:
            request = self._admit(call)
            fault, choices = self._drawn(call, request, for_fault)
            parallel = self._limits.limits.parallel_requests
            if not slot.enter_context(self._limits.in_parallel(request.model)):
                raise vendor.too_many(request.model, parallel, self._retry_after)
            self._limit(vendor, request, choices, fault)
            seconds = self._latency.seconds(for_latency)
            if seconds > 0 and await connection.left_within(seconds):
                self.stats.leave(abandoned=True)
                return
            self._raise_status(fault, call, request)
        except wire.ApiError as error:
            levels = [] if request is None else self._limits.levels(request.model)
            sent = vendor.headers(request_id, levels, error.retry_after)
            self.stats.leave(error.status)
            reply = self._encode(vendor.error(error, request_id))
            await connection.answer(error.status, reply, sent)
            return
        request = self._prompt_cache.with_cached_tokens(request)
        answer = altered(vendor.answer(request, choices), fault, call.key)
        reply = self._encode(answer)
        wrong = [_FALSE_LEVEL] if fault == "wrong_limits" else None
        sent = vendor.headers(request_id, wrong or self._limits.levels(request.model))
        if request.stream and isinstance(vendor, AnthropicMessages) and fault != "no_stream":
            reply = vendor.stream(answer)
            sent.append((b"content-type", b"text/event-stream"))
        if fault is None or fault.partition(":")[0] in ANSWERS:
            self._count_answer(request, choices, count)
            await connection.answer(200, reply, sent)
        else:
            await self._break(fault, reply, sent, connection)

    async def _serve_batch(self, scope: Message, body: bytes, connection: Connection) -> bool:
        """Answer a request about files or batches. Return False for any other path."""
        headers = scope["headers"]
        parameters = parse_qs(scope["query_string"].decode())
        query = {name: values[-1] for name, values in parameters.items()}
        route = scope["method"], scope["path"], query, headers
        for vendor in self._batches:
            if not vendor.owns(scope["path"]):
                continue
            status = 200
            try:
                if self._api_key is not None:
                    vendor.wire.check_key(headers, self._api_key)
                answer: object = vendor.serve(*route, body)
            except Reset:
                await connection.reset()
                return True
            except wire.ApiError as error:
                status = error.status
                answer = vendor.wire.error(error, "req_batch")
            if answer is None:
                continue
            sent = vendor.wire.headers("req_batch")
            if isinstance(answer, dict) and UPLOAD_URL in answer:
                sent.append((UPLOAD_URL.encode(), answer[UPLOAD_URL].encode()))
            content = answer if isinstance(answer, bytes) else self._encode(answer)
            if scope["method"] == "GET" and self._batching.happens("gzip_bomb"):
                content = gzip_bomb(content, sent)
            await connection.answer(status, content, sent)
            return True
        return False

    def _admit_entry(self, path: str, body: bytes, headers: Headers) -> tuple[str, int]:
        request = self._admit(self._batched(path, body, headers))
        return request.model, request.prompt_tokens

    def _batched(self, path: str, body: bytes, headers: Headers) -> ModelCall:
        call = self._call(path, headers, body)
        assert call is not None
        return call

    def _process(self, path: str, body: bytes, headers: Headers) -> Answered:
        call = self._batched(path, body, headers)
        vendor = call.vendor
        count = self.stats.arrive(call.digest, vendor.path)
        try:
            request = self._admit(call)
            number = draw(self._seed, call.digest, count.requests)[0]
            fault, choices = self._drawn(call, request, number)
            self._raise_status(fault, call, request)
        except wire.ApiError as error:
            self.stats.leave(error.status)
            return error.status, vendor.error(error, f"req_{call.digest}")
        self._count_answer(request, choices, count)
        return 200, altered(vendor.answer(request, choices), fault, call.key)

    def _admit(self, call: ModelCall) -> MockRequest:
        vendor = call.vendor
        if self._api_key is not None:
            vendor.check_key(call.headers, self._api_key)
        request = vendor.read(call.body, call.digest, call.headers)
        request = replace(request, model=call.model) if call.model else request
        if self._models and request.model not in self._models:
            raise vendor.unknown_model(request.model)
        sent = msgspec.json.decode(call.body, type=dict[str, object]) if self._refuse else {}
        for name in self._refuse:
            if sent.get(name) is not None and (error := vendor.refused(name, sent[name])):
                raise error
            keyword = name.removeprefix("schema:")
            for field in CONSTRAINTS if keyword != name else ():
                if f'"{keyword}":'.encode() in msgspec.json.encode(sent.get(field)):
                    raise vendor.invalid(
                        f"Invalid schema in {field}: '{keyword}' is not permitted."
                    )
        return request

    def _drawn(
        self, call: ModelCall, request: MockRequest, number: float
    ) -> tuple[Fault | None, list[ReplyChoice]]:
        """Return the fault that a random number selects, if any, and the choices of the answer."""
        fault = self._faults.pick(number, request.turns)
        self.stats.counts.by_model[request.model] += 1
        return fault, self._choices(call, request, fault)

    def _choices(
        self, call: ModelCall, request: MockRequest, fault: Fault | None
    ) -> list[ReplyChoice]:
        if request.echoed and fault not in _FAULTY_CHOICES:
            return [scored(request.model, text) for text in request.echoed]
        if request.prompts:
            choices: list[ReplyChoice] = []
            for prompt in request.prompts:
                choices += self._choices(call, request.alone(prompt), fault)
            return choices
        try:
            answers = [self._answerer(request, index) for index in range(request.n)]
        except wire.NoAnswer as missing:
            # Not a 404: clients treat that as a missing model and stop.
            raise call.vendor.invalid(str(missing), "no_recorded_answer") from None
        if fault in _FAULTY_CHOICES:
            return [_FAULTY_CHOICES[fault]] * request.n
        if fault == "reasoning_only":
            return [endless(request)] * request.n
        if fault == "key_in_answer":
            return [ReplyChoice(f"Your key is {call.key}, is it not?")] * request.n
        return [self._choice(request, index, answer) for index, answer in enumerate(answers)]

    def _choice(self, request: MockRequest, index: int, answer: str | Answer) -> ReplyChoice:
        if isinstance(answer, str):
            answer = Answer(answer)
        thinks = self._reasoning is not None and request.reasons
        reasoning = thought(request, index) if thinks else ""
        choice = truncate(answer.text, request.max_tokens, request.stop, reasoning)
        if request.logprobs is not None:
            token_positions = positions(choice.text, answer.logprobs, request.logprobs)
            choice = replace(choice, positions=token_positions[: request.max_tokens])
        return choice

    def _limit(
        self,
        vendor: WireFormat,
        request: MockRequest,
        choices: list[ReplyChoice],
        fault: Fault | None,
    ) -> None:
        read = request.prompt_tokens
        written = sum(choice.tokens for choice in choices)
        if fault in STATUSES:
            read = written = 0  # It fails before the model runs, but counts as a request.
        if broken := self._limits.admit(request.model, read, written):
            raise vendor.rate_limited(request.model, broken, broken.wait_s)
        self.stats.peak.add(read, written)

    def _raise_status(self, fault: Fault | None, call: ModelCall, request: MockRequest) -> None:
        if fault is None:
            return
        self.stats.counts.by_fault[fault] += 1
        vendor = call.vendor
        if fault == "key_in_error":
            raise vendor.invalid(f"The key {call.key} may not do this.")
        if fault == "key_part_in_error":
            raise vendor.invalid(f"The key {call.key[:20]}… may not do this.")
        if fault == "no_credit":
            raise vendor.no_credit()
        if fault in _REJECTED:
            raise vendor.invalid(_REJECTED[fault])
        if fault == "429":
            raise vendor.rate_limited(request.model, None, self._retry_after)
        if fault in STATUSES:
            raise vendor.failure(int(fault))

    def _count_answer(
        self, request: MockRequest, choices: list[ReplyChoice], body: BodyCount
    ) -> None:
        self.stats.leave(200)
        self.stats.counts.prompt_tokens += request.prompt_tokens
        self.stats.counts.cache_read_tokens += request.cache_read
        self.stats.counts.cache_write_tokens += request.cache_write
        self.stats.counts.completion_tokens += sum(choice.tokens for choice in choices)
        if any(choice.text or choice.finish == "content_filter" for choice in choices):
            body.answered += 1
            self.stats.counts.answered += 1

    async def _break(
        self, fault: Fault, reply: bytes, headers: Headers, connection: Connection
    ) -> None:
        half = reply[: len(reply) // 2]
        match fault:
            case "reset":
                self.stats.leave()
                return await connection.reset()
            case "stall":
                await connection.gone()
                return self.stats.leave(abandoned=True)
            case "stall_body":
                await connection.begin(len(reply), headers, half)
                await connection.gone()
                return self.stats.leave(200, abandoned=True)
            case "trickle":
                await connection.trickle(reply, headers)
                return self.stats.leave(200, abandoned=True)
            case "truncated_body":
                self.stats.leave(200)
                await connection.begin(len(reply), headers, half)
                return await connection.close()
            case "huge_body":
                await connection.begin(len(reply) + 1024 * len(SPACES), headers, reply)
                await connection.flood(1024)
                return self.stats.leave(200)
        status, reply = damaged(fault, reply, headers, connection.elsewhere())
        self.stats.leave(status)
        await connection.answer(status, reply, headers)

    async def _list_models(self, headers: Headers, connection: Connection) -> None:
        # Both vendors list models at the same path; only Anthropic's clients send this header.
        anthropic = wire.header(headers, b"anthropic-version") is not None
        vendor = AnthropicMessages() if anthropic else OpenAIChat()
        try:
            if self._api_key is not None:
                vendor.check_key(headers, self._api_key)
            status = 200
            body = vendor.models(self._models or [DEFAULT_MODEL])
        except wire.ApiError as error:
            status = error.status
            body = vendor.error(error, "req_models")
        await connection.answer(status, self._encode(body), vendor.headers("req_models"))

    def _control(self, route: str, body: bytes) -> tuple[int, object]:
        try:
            if route == "POST /stats/reset":
                self.stats.reset()
            elif route == "POST /faults":
                self.change(msgspec.json.decode(body, type=Conditions))
            match route:
                case "GET /stats" | "POST /stats/reset":
                    return 200, self.stats.snapshot()
                case "GET /tokenizer_info":
                    return 200, {"eos_token": END}
                case "POST /tokenize":
                    text = msgspec.json.decode(body, type=_Tokenised).prompt
                    tokens = OpenAICompletions.vocabulary.encode(text)
                    return 200, {"tokens": tokens, "count": len(tokens)}
                case "POST /detokenize":
                    numbers = msgspec.json.decode(body, type=_Tokenised).tokens
                    return 200, {"prompt": OpenAICompletions.vocabulary.decode(numbers)}
                case "GET /stats/bodies":
                    return 200, self.stats.by_body()
                case "GET /faults" | "POST /faults":
                    now = self._faults.shares, self._faults.texts, self._latency.spec
                    ours = self._batching
                    return 200, Conditions(
                        *now, self._limits.limits, ours.faults, ours.latency.spec
                    )
        except (wire.MockError, msgspec.MsgspecError) as error:
            return 400, {"error": error_object(str(error))}
        return 404, {"error": error_object(f"Invalid URL ({route})")}
