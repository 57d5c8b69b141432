"""Checks a plug-in backend: its features, request bodies, replies and errors.

A local server that refuses all calls shows what a backend sends and how it treats errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import product
from typing import Any, get_args

from msgspec.structs import astuple, replace

from harness import ports
from harness.backends import HttpBackend
from harness.errors import (
    CallError,
    FailureKind,
    FatalCallError,
    RequestRejected,
    TransientError,
)
from harness.plugins.testing.plugin_check import PlugInCheck, misfit
from harness.plugins.testing.refusing import Refusing, refusing
from harness.records import Decoding, Message, Origin, Reply, Request, Role, Usage

FEATURES = {
    *ports.DECODING_PARAMETERS,
    *ports.CONSTRAINTS,
    *(ports.LOGPROBS, ports.PROMPT_LOGPROBS, ports.OWN_DRAWS, ports.SAMPLES_PER_CALL),
    *("max_tokens_required", "conversation", "by_instance", "free", "recorded", "simulated"),
    ports.APPLICATION,
}

# Two values of each decoding parameter, for which a backend must send different bodies.
DECODINGS: dict[str, tuple[Any, Any]] = {
    "temperature": (0.25, 0.5),
    "top_p": (0.25, 0.5),
    "max_tokens": (20, 30),
    "stop": (("a",), ("b",)),
    "extra": ({"a": 1}, {"a": 2}),
}
# Added to the prompt, so that the answer is long enough to be cut off.
LONGER = "Then count: one, two, three, four, five, six, seven, eight, nine, ten."

# The error that a backend must raise for each status of an HTTP response.
ERRORS: dict[int, type[CallError]] = {
    429: TransientError,
    401: FatalCallError,
    404: FatalCallError,
    400: RequestRejected,
    503: TransientError,
}
UNREACHABLE = 0  # instead of a status: no server listens

Expected = Callable[[str], str] | None  # returns the correct reply to a prompt


def check_backend(
    backend: ports.Backend,
    prompt: str = "Say yes.",
    *,
    model: str = "model",
    expected: Expected = None,
    at: Callable[[str], ports.Backend] | None = None,
    timeout_s: float = 30.0,
) -> list[str]:
    """Call a backend about nine times and return the problems found.

    The calls are real, so point the backend at a server that costs nothing. Call this function from
    synchronous code: it starts an event loop, starts the backend if necessary, and closes it.

    Args:
        backend: The backend.
        prompt: The prompt. The number of the call is appended to it.
        model: The model to request.
        expected: Returns the correct reply to a prompt. If None, a reply to another call's prompt
            is noticed only if the backend echoes its prompts.
        at: Builds the backend for a server's URL. It is used with a local server that refuses all
            calls, which shows what the backend sends, how it treats errors, and whether it shows
            its key (of at least 8 characters). Omit it for a backend that calls no server.
        timeout_s: Time limit in seconds. It applies separately to the start and all calls together,
            to each of two calls of ``aclose``, and to the calls of the backend that ``at`` builds.
    """
    check = PlugInCheck("backends", backend)
    check.optional("fingerprint")
    if problems := check.sentences():
        return problems
    for name in sorted(backend.features - FEATURES):
        check.add("features", f"names {name!r}, which the harness does not know.")
    if not backend.cacheable and not backend.features & {"free", "recorded", "simulated"}:
        problem = "is False, so replies are neither saved nor priced. If calls cost nothing"
        check.add("cacheable", f"{problem}, name 'free' among the features.")
    decoding = Decoding(max_tokens=16 if "max_tokens" in backend.features else None)
    requests = []
    for number in range(4):
        question = f"{prompt} ({number + 1})"
        origin = Origin("harness.plugins.testing", number, 1)
        requests.append(Request(model, (Message("user", question),), decoding, 0, origin))
    if isinstance(backend, HttpBackend):
        _body(check, backend, requests[0])
        for empty in (b"{}", b"[]", b"null", b"<html>"):
            with contextlib.suppress(Exception):
                text = backend.reply(empty, requests[0]).text
                problem = f"finds the text {text!r:.60} in {empty.decode()}"
                check.add("reply", f"{problem}: raise an error instead.")
    if at is not None:
        with refusing() as server:
            asyncio.run(_refused(check, server, at, requests[0], timeout_s))
    asyncio.run(_backend(check, requests, expected, timeout_s))
    return check.sentences()


async def _backend(
    check: PlugInCheck, requests: list[Request], expected: Expected, timeout_s: float
) -> None:
    backend: ports.Backend = check.plugin
    request = requests[0]
    doing = ("start", "before the first call")
    try:
        async with asyncio.timeout(timeout_s):
            if not backend.ready:
                with check.calling("start"):
                    await backend.start(lambda _: None)
            doing = "generate", "for four calls at the same time"
            await _concurrent(check, backend, requests, expected)
            if "generate" not in check.found:
                doing = "generate", "after another call was cancelled"
                call = asyncio.ensure_future(backend.generate(request))
                await asyncio.sleep(0)
                unfinished = call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                if unfinished and not call.cancelled():
                    check.add("generate", "does not let asyncio.CancelledError through.")
                after = await _result(backend, request)
                doing = "generate", "with the parameters that its features name"
                if isinstance(after, Reply):
                    if "max_tokens" in backend.features:
                        await _cut_off(check, backend, request)
                    await _parameters(check, backend, request, after)
                else:
                    check.add("generate", f"fails after another call was cancelled: {after!r:.200}")
    except TimeoutError:
        problem = f"had not returned when the {timeout_s:g} s for all calls were over, {doing[1]}."
        check.add(doing[0], problem)
    for which in ("first", "second"):
        with check.calling("aclose", f" on the {which} call"):
            await asyncio.wait_for(backend.aclose(), timeout_s)


def _variants(backend: ports.Backend, request: Request) -> Iterator[tuple[str, Request, Request]]:
    """Yield each part of a request that must be sent, with two requests that differ in it."""

    def prompted(*messages: Message) -> Request:
        return replace(request, messages=messages)

    def decoded(name: str, value: object) -> Request:
        parameters: dict[str, Any] = {name: value}
        return replace(request, decoding=dataclasses.replace(request.decoding, **parameters))

    yield "message texts", prompted(Message("user", "a")), prompted(Message("user", "b"))
    if "model" not in inspect.signature(type(backend)).parameters:
        yield "model", replace(request, model="a"), replace(request, model="b")
    if "conversation" in backend.features:
        question = Message("user", "Hello.")
        answer = Message("assistant", "Hello.")
        questions = prompted(question, question, *request.messages)
        yield "message roles", questions, prompted(question, answer, *request.messages)
    if "seed" in backend.features:
        yield "seed", replace(request, seed=1), replace(request, seed=2)
        yield "seed of 0", replace(request, seed=0), replace(request, seed=None)
    for name, (low, high) in DECODINGS.items():
        if name in backend.features:
            yield name, decoded(name, low), decoded(name, high)
    if "temperature" in backend.features:
        yield "temperature of 0", decoded("temperature", 0.0), decoded("temperature", None)


def _body(check: PlugInCheck, backend: HttpBackend, request: Request) -> None:
    """Add a problem for each part of a request that does not affect the body to send."""
    for name, first, second in _variants(backend, request):
        with check.calling("body", f" when the {name} changes"), contextlib.suppress(CallError):
            if backend.body(first) == backend.body(second):
                check.add("body", f"does not change with the request's {name}: send it.")


async def _refused(
    check: PlugInCheck,
    server: Refusing,
    build: Callable[[str], ports.Backend],
    request: Request,
    timeout_s: float,
) -> None:
    """Check a backend on a refusing server: what it sends, and its errors."""
    backend = build(server.url)
    rebuilt = build(server.url)
    elsewhere = build("http://127.0.0.1:9")
    if rebuilt.endpoint != backend.endpoint:
        check.add("endpoint", "changes between sessions, so no cached reply is found again.")
    elif backend.cacheable and elsewhere.endpoint == backend.endpoint:
        check.add("endpoint", "is the same for two servers, which would share cached replies.")
    visible_texts = {"endpoint": backend.endpoint, "generate": ""}
    visible_texts["fingerprint"] = str(backend.fingerprint())
    try:
        async with asyncio.timeout(timeout_s):
            for status, body in (*product(ERRORS, [b"{}"]), (200, b"{}"), (200, b"<html>")):
                server.status = status
                server.body = body
                server.sent = []
                result = await _result(backend, request)
                visible_texts["generate"] += str(result)
                if problem := _refusal_problem(backend, status, result):
                    when = f"the body {body.decode()}" if status == 200 else f"status {status}"
                    check.add("generate", f"{problem}, when the server answers with {when}.")
                if len(server.sent) > len({*server.sent}):
                    problem = f"sends {len(server.sent)} requests for one call with status {status}"
                    check.add("generate", f"{problem}: switch the library's own retries off.")
            for member, text in visible_texts.items():
                if any(key in text for key in server.keys):
                    where = " in an error" if member == "generate" else ""
                    problem = f"shows the key{where}: mask it, as HttpClient does with key=."
                    check.add(member, problem)
            server.status = 429
            for name, first, second in _variants(backend, request):
                sent = []
                for changed in (first, second):
                    server.sent = []
                    await _result(backend, changed)
                    sent.append(server.sent)
                if any(body for _, body in sent[0]) and sent[0] == sent[1]:
                    check.add("generate", f"does not send the request's {name}.")
            server.together = threading.Barrier(2)
            server.sent = []
            another = replace(request, messages=(Message("user", "Another."),))
            await asyncio.gather(_result(backend, request), _result(backend, another))
            if server.sent and server.together.broken:
                problem = "sends a second call only when the first has ended: run blocking code"
                advice = f"{problem} with asyncio.to_thread (and let concurrency be 2)."
                check.add("generate", advice)
            server.together = None
            server.shutdown()
            server.server_close()
            if problem := _refusal_problem(backend, UNREACHABLE, await _result(backend, request)):
                check.add("generate", f"{problem}, when no server listens.")
    except TimeoutError:
        check.add("generate", f"had not ended refused calls after {timeout_s:g} s.")
    finally:
        for built in (backend, rebuilt, elsewhere):
            await built.aclose()


def _refusal_problem(backend: ports.Backend, status: int, result: object) -> str:
    if isinstance(result, Reply):
        return f"returns {f'the text {result.text!r:.60}':.80} instead of raising an error"
    if not isinstance(result, BaseException):
        return f"returns {result!r:.80} instead of raising an error"
    if problem := _reply_problem(backend, result):
        return problem.rstrip(".")
    must = ERRORS.get(status, CallError if status else TransientError)
    is_other_error = status == 400 and not isinstance(result, TransientError | FatalCallError)
    if not isinstance(result, must) and not is_other_error:
        return f"raises {type(result).__name__} instead of a {must.__name__}"
    if status == 429 and isinstance(result, TransientError):
        if result.kind != "rate_limited":
            return f"raises TransientError(kind={result.kind!r}) instead of kind='rate_limited'"
        if result.retry_after is None:
            return "raises a TransientError without the retry_after of the header Retry-After"
    return ""


async def _concurrent(
    check: PlugInCheck, backend: ports.Backend, requests: list[Request], expected: Expected
) -> None:
    prompts = [request.messages[0].content for request in requests]
    before = deepcopy(requests)
    calls = [asyncio.ensure_future(backend.generate(request)) for request in requests]
    await asyncio.sleep(0)
    at_once = all(call.done() for call in calls)
    results = await asyncio.gather(*calls, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    is_empty = not errors
    for prompt, result in zip(prompts, results, strict=True):
        if problem := _reply_problem(backend, result):
            check.add("generate", problem)
        if not isinstance(result, Reply):
            is_empty = False
            continue
        is_empty &= not result.text and not result.reasoning and result.finish_reason == "stop"
        if problem:
            continue
        if expected:
            right = expected(prompt)
            cut = result.finish_reason == "length" and right.startswith(result.text)
            if result.text != right and not cut:
                problem = f"answers {prompt!r} with {result.text!r:.60}, not {right!r}."
                check.add("generate", problem)
        elif prompt not in result.text and any(another in result.text for another in prompts):
            problem = "answers one of several concurrent calls with the text of another."
            check.add("generate", problem)
    if requests != before:
        check.add("generate", "modifies its request.")
    if len(errors) == len(results):
        first = f"{type(errors[0]).__name__}: {errors[0]}"
        check.add("generate", f"answers no call. The first error is {first[:300]}")
    if not expected and is_empty:
        check.add("generate", "returns only empty texts.")
    if at_once and backend.cacheable:
        check.add("generate", "never awaits, so calls block each other. Or set cacheable to False.")


async def _result(backend: ports.Backend, request: Request) -> Reply | BaseException:
    [result] = await asyncio.gather(backend.generate(request), return_exceptions=True)
    return result


async def _parameters(
    check: PlugInCheck, backend: ports.Backend, request: Request, short_reply: Reply
) -> None:
    """Check a call with several messages and all parameters that the backend supports.

    ``short_reply`` is the reply to ``request``, which has one short message.
    """
    every = {"temperature": 0.5, "top_p": 0.9, "stop": ("\n\n\n",), "max_tokens": 16}
    parameters: Any = {name: value for name, value in every.items() if name in backend.features}
    seed = 1 if "seed" in backend.features else None
    roles: list[Role] = ["system", "user"]
    if "conversation" in backend.features:
        roles += ["assistant", "user"]
    text = "word " * 40 + request.messages[0].content
    longer = tuple(Message(role, text) for role in roles)
    full = replace(request, messages=longer, decoding=Decoding(**parameters), seed=seed)
    result = await _result(backend, full)
    before = (short_reply.usage or Usage()).input_tokens
    if problem := _reply_problem(backend, result):
        problem = f"{problem.rstrip('.')}, when all parameters in its features are set."
        check.add("generate", problem)
    elif isinstance(result, Reply) and result.usage:
        more = result.usage.input_tokens - before
        words = 40 * len(roles)
        if 0 < more < words:  # a server that always counts the same shows nothing
            problem = f"counts only {more} more input tokens for {words} more words"
            check.add("generate", f"{problem}: are all messages sent, and counted as input?")


async def _cut_off(check: PlugInCheck, backend: ports.Backend, request: Request) -> None:
    """Check a call with a longer answer, then the same call with a limit of one token."""
    question = f"{request.messages[0].content} {LONGER}"
    request = replace(request, messages=(Message("user", question),))
    full_reply = await _result(backend, request)
    usage = (isinstance(full_reply, Reply) and full_reply.usage) or Usage()
    cut = await _result(backend, replace(request, decoding=Decoding(max_tokens=1)))
    if isinstance(cut, Reply) and cut.usage:
        tokens = cut.usage.output_tokens
        if cut.usage.input_tokens != usage.input_tokens:
            problem = f"reports different input tokens for one prompt: {usage}, {cut.usage}."
            check.add("generate", f"{problem} Are input and output swapped?")
        elif tokens > 2:
            problem = f"counts {tokens} output tokens for max_tokens=1"
            check.add("generate", f"{problem}: is max_tokens sent? Are input tokens included?")
        elif cut.text and tokens == 1 < usage.output_tokens and cut.finish_reason != "length":
            problem = f"returns finish_reason={cut.finish_reason!r}, not 'length', for a reply"
            check.add("generate", f"{problem} that max_tokens cut off: {cut.text!r:.60}.")


def _reply_problem(backend: ports.Backend, result: Reply | BaseException) -> str:
    kinds = get_args(FailureKind)
    if isinstance(result, TransientError) and result.kind not in kinds:
        return f"raises TransientError(kind={result.kind!r}); kinds are {', '.join(kinds)}."
    if isinstance(result, CallError):
        return ""
    if isinstance(result, BaseException):
        name = type(result).__name__
        return f"raises {name}, which is not a harness.errors.CallError: {str(result)[:200]}"
    if problem := misfit(result, Reply):
        return f"returns {result!r:.60}, {problem}"
    if usage := result.usage:
        uncached = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
        if min(*astuple(usage), uncached, usage.output_tokens - usage.reasoning_tokens) < 0:
            return f"reports a negative number of tokens, or a part above the whole: {usage}."
        if not usage.input_tokens or (result.text and not usage.output_tokens):
            return f"counts no tokens: {usage}. If the provider reports none, set usage to None."
    if not result.finish_reason:
        return "returns no finish_reason: without one, a truncated answer looks complete."
    if result.usage is None and backend.cacheable and "free" not in backend.features:
        return "returns no usage: a paid call's cost would be unknown."
    return ""
