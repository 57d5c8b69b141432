"""Backends that are plain functions, such as a user's application."""

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from harness.records import Reply, Request

_Ended: TypeAlias = tuple[Any, Exception | None]  # the result of a call, or its exception


def backend_of(function: Callable[..., Any], digest: str) -> Callable[..., Any]:
    """Return a factory of backends that answer with a function.

    Args:
        function: Takes the prompt (the texts of all messages) and returns the answer, a text or a
            `Reply`. If its first parameter is named ``messages``, it gets the messages instead, as
            dicts with ``role`` and ``content``. A parameter named ``max_tokens`` gets the limit of
            an answer's length, if one is set. Its other parameters are those of a plug-in. If it is
            not async, each call has its own thread.
        digest: A hash of the function's code. Replies are cached for this code only.
    """
    first, *own = inspect.signature(function, eval_str=True).parameters.values()
    whole = first.name == "messages"
    limit = next((one for one in own if one.name == "max_tokens"), None)
    taken = {"conversation"} if whole else set[str]()
    if limit is not None:
        taken.add("max_tokens")
        if limit.default is limit.empty:
            taken.add("max_tokens_required")

    class FunctionBackend:
        # Estimates and budgets also use a limit that the function does not take.
        features = frozenset(taken | {"max_tokens"})
        endpoint = ""
        cacheable = True

        def __init__(self, **given: Any) -> None:
            self._given = given

        def key_part(self, request: Request) -> str:
            return digest

        async def generate(self, request: Request) -> Reply:
            turns = [{"role": one.role, "content": one.content} for one in request.messages]
            asked = turns if whole else "\n\n".join(one["content"] for one in turns)
            given, most = self._given, request.decoding.max_tokens
            if limit is not None and most is not None:
                given = {**given, "max_tokens": most}
            call = functools.partial(function, asked, **given)
            if inspect.iscoroutinefunction(function):
                found = await call()
            else:
                found, error = await _in_thread(call)
                if error is not None:
                    raise error
            if isinstance(found, str):
                return Reply(found, "stop")
            if isinstance(found, Reply):
                return found
            said = f"{function.__name__} returned {found!r:.60}, not a text or a Reply"
            raise TypeError(said)

        async def aclose(self) -> None:
            pass

    def build(**given: Any) -> FunctionBackend:
        return FunctionBackend(**given)

    build.features = frozenset(taken)  # type: ignore[attr-defined]
    options = [one for one in own if one is not limit]
    build.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    build.__doc__, build.__name__ = function.__doc__, function.__name__
    build.__wrapped__ = function  # type: ignore[attr-defined]
    return build


async def _in_thread(call: Callable[[], Any]) -> _Ended:
    """Return a call's result, or its error. A call that hangs does not keep Python from exiting."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[_Ended] = loop.create_future()

    def settle(result: _Ended) -> None:
        if not ended.done():  # it is done if the call has taken too long
            ended.set_result(result)

    def work() -> None:
        result: _Ended
        try:
            result = call(), None
        except Exception as error:
            result = None, error
        except BaseException as error:  # such as sys.exit(), which would end the whole run
            result = None, RuntimeError(repr(error)).with_traceback(error.__traceback__)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, daemon=True).start()
    return await ended
