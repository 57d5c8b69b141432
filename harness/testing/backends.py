"""Checks of backends, by a few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any, get_args

import msgspec

from harness import ports
from harness.errors import CallError, FailureKind, TransientError
from harness.records import Decoding, Message, Origin, Reply, Request
from harness.testing.scoring import PlugInCheck, misfit

FEATURES = {
    *ports.PARAMETERS,
    *ports.CONSTRAINTS,
    *(ports.LOGPROBS, ports.PROMPT_LOGPROBS, ports.OWN_DRAWS),
    *("max_tokens_required", "conversation", "by_instance", "free", "recorded", "simulated"),
}


def check_backend(
    backend: ports.Backend,
    prompt: str = "Say yes.",
    *,
    model: str = "model",
    expected: Callable[[str], str] | None = None,
    timeout_s: float = 30.0,
) -> list[str]:
    """Check a backend with about eight calls, four of them at the same time and one cancelled.

    The backend is started if it has to be, and closed afterwards, in a separate event loop. The
    calls are real: point the backend at a server that costs nothing.

    Args:
        prompt: What it is asked; each call adds its number.
        model: The name of a model that the server has.
        expected: Returns the right reply to a prompt, if that is known. Otherwise only a backend
            that echoes its prompts shows that it mixes up replies.
        timeout_s: Time limit of all calls together, in seconds; then that of closing.
    """
    check = PlugInCheck("backends", backend)
    if found := check.sentences():
        return found
    for name in sorted(backend.features - FEATURES):
        check.add("features", f"names {name!r}, which the harness does not know.")
    asyncio.run(_backend(check, backend, prompt, model, expected, timeout_s))
    return check.sentences()


async def _backend(
    check: PlugInCheck,
    backend: ports.Backend,
    prompt: str,
    model: str,
    expected: Callable[[str], str] | None,
    timeout_s: float,
) -> None:
    doing = "start", "although generate was not called yet"
    try:
        async with asyncio.timeout(timeout_s):
            if isinstance(backend, ports.Startable) and not backend.ready:
                with check.calling("start"):
                    await backend.start(lambda _: None)
            doing = "generate", "for four calls at the same time"
            if request := await _concurrent(check, backend, prompt, model, expected):
                doing = "generate", "after another call was cancelled"
                call = asyncio.ensure_future(backend.generate(request))
                await asyncio.sleep(0)
                unfinished = call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                if unfinished and not call.cancelled():
                    check.add("generate", "does not let asyncio.CancelledError through.")
                [after] = await asyncio.gather(backend.generate(request), return_exceptions=True)
                if not isinstance(after, Reply):
                    check.add("generate", f"fails after another call was cancelled: {after!r:.200}")
                doing = "generate", "with the parameters that its features name"
                await _parameters(check, backend, request, after)
    except TimeoutError:
        check.add(doing[0], f"did not return within {timeout_s:g} s, {doing[1]}.")
    for _ in range(2):
        with check.calling("aclose", ", perhaps because it is called twice"):
            await asyncio.wait_for(backend.aclose(), timeout_s)


async def _concurrent(
    check: PlugInCheck,
    backend: ports.Backend,
    prompt: str,
    model: str,
    expected: Callable[[str], str] | None,
) -> Request | None:
    """Make four calls at the same time; return the first request if any reply is valid."""
    decoding = Decoding(max_tokens=16 if "max_tokens" in backend.features else None)
    prompts = [f"{prompt} ({number})" for number in range(1, 5)]
    requests = [
        Request(model, (Message("user", one),), decoding, 0, Origin("harness.testing", n, 1))
        for n, one in enumerate(prompts)
    ]
    before = deepcopy(requests)
    results = await asyncio.gather(*map(backend.generate, requests), return_exceptions=True)
    for asked, result in zip(prompts, results, strict=True):
        others = (one for one in prompts if one != asked)
        if problem := _reply_problem(backend, result):
            check.add("generate", problem)
        elif not isinstance(result, Reply):
            continue
        elif expected and result.text != (right := expected(asked)):
            check.add("generate", f"answers {asked!r} with {result.text!r:.60}, not {right!r}.")
        elif not expected and asked not in result.text and any(o in result.text for o in others):
            check.add("generate", "answers one of several concurrent calls with another's text.")
    if requests != before:
        check.add("generate", "changes the request that it is given.")
    if all(isinstance(result, BaseException) for result in results):
        first = f"{type(results[0]).__name__}: {results[0]}"
        check.add("generate", f"answers no call. The first error is {first[:300]}")
    elif not expected and all(isinstance(r, Reply) and _says_nothing(r) for r in results):
        check.add("generate", "returns only empty texts.")
    return requests[0] if any(isinstance(result, Reply) for result in results) else None


def _says_nothing(reply: Reply) -> bool:
    """Whether a reply is complete and empty; reasoning may have used up all tokens of another."""
    return not reply.text and not reply.reasoning and reply.finish_reason == "stop"


async def _parameters(
    check: PlugInCheck, backend: ports.Backend, request: Request, whole: Reply | BaseException
) -> None:
    """Make a call with every parameter of the features, and one whose reply is cut off.

    A provider may refuse either. `whole` is the reply to the request as it is.
    """
    every = {"temperature": 0.5, "top_p": 0.9, "stop": ("\n\n\n",), "max_tokens": 16}
    given: Any = {name: value for name, value in every.items() if name in backend.features}
    seed = 1 if "seed" in backend.features else None
    full = msgspec.structs.replace(request, decoding=Decoding(**given), seed=seed)
    [result] = await asyncio.gather(backend.generate(full), return_exceptions=True)
    if problem := _reply_problem(backend, result):
        check.add("generate", f"{problem.rstrip('.')}, if all parameters of its features are set.")
    if "max_tokens" not in given:
        return
    short = msgspec.structs.replace(request, decoding=Decoding(max_tokens=1))
    [cut] = await asyncio.gather(backend.generate(short), return_exceptions=True)
    if isinstance(cut, Reply) and isinstance(whole, Reply) and cut.usage and whole.usage:
        tokens = cut.usage.output_tokens
        if cut.text == whole.text and tokens > 2:
            check.add("generate", f"returns {tokens} tokens for max_tokens=1.")
        elif cut.text and tokens == 1 < whole.usage.output_tokens and cut.finish_reason != "length":
            problem = f"returns finish_reason={cut.finish_reason!r}, not 'length', for a reply"
            check.add("generate", f"{problem} that max_tokens cut off: {cut.text!r:.60}.")


def _reply_problem(backend: ports.Backend, result: Reply | BaseException) -> str:
    """Return what is wrong with a reply or an exception of `generate`; empty for nothing."""
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
    if result.usage and min(msgspec.structs.astuple(result.usage)) < 0:
        return f"counts a negative number of tokens: {result.usage}."
    if not result.finish_reason:
        return "returns no finish_reason: without one, a truncated answer looks complete."
    if result.usage is None and backend.cacheable and "free" not in backend.features:
        return "returns no usage: a paid call's cost would be unknown."
    return ""
