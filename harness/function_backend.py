"""Backends that are plain functions, such as a user's application."""

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from typing_extensions import override

from harness.errors import ConfigError
from harness.ports import APPLICATION, Backend
from harness.records import Reply, Request, content_hash

OPTIONS = (str, int, float, list, tuple, dict, Path)  # types of options in a run file
_Ended: TypeAlias = tuple[Any, Exception | None]  # the result of a call, or its exception


def backend_of(function: Callable[..., Any], digest: str, file: str = "") -> Callable[..., Any]:
    """Return a factory of backends that answer with a function.

    Args:
        function: Takes the prompt (the texts of all messages) and returns the answer, a text or a
            `Reply`. If its first parameter is named ``messages``, it gets the messages instead, as
            dicts with ``role`` and ``content``. A parameter named ``max_tokens`` gets the limit of
            an answer's length, if one is set. Its other parameters are those of a plug-in. If it is
            not async, each call has its own thread.
        digest: A hash of the function's code. Replies are cached for this code and the function's
            options only, and if the hash is "", they are not cached.
        file: The name of the function's file, if it is in a plug-in's file.

    Raises:
        ConfigError: If the function has no parameter for the prompt.
    """
    name = getattr(function, "__name__", "plugin")
    called = f"{file}'s {name}" if file else name
    parameters = dict(inspect.signature(function, eval_str=True).parameters)
    prompt = next(iter(parameters.values()), None)
    if prompt is None or prompt.kind in (prompt.KEYWORD_ONLY, prompt.VAR_KEYWORD):
        problem = f"The first parameter of a backend's function is the prompt: {called} has none."
        raise ConfigError(problem, f"Define it as def {name}(prompt).")
    del parameters[prompt.name]
    takes_messages = prompt.name == "messages"
    limit = parameters.pop("max_tokens", None)
    accepted = {"conversation"} if takes_messages else set[str]()
    if limit is not None:
        accepted.add("max_tokens")
        if limit.default is limit.empty:
            accepted.add("max_tokens_required")

    class FunctionBackend(Backend):
        # Estimates and budgets also use a limit that the function does not take.
        features = frozenset(accepted | {"max_tokens", APPLICATION})
        endpoint = ""
        cacheable = bool(digest)
        function_name = called

        def __init__(self, **arguments: Any) -> None:
            self._arguments = arguments
            options = {}
            for key, value in arguments.items():
                if isinstance(value, OPTIONS):
                    options[key] = str(value) if isinstance(value, Path) else value
            self._key = content_hash([digest, options]) if options else digest

        @override
        def key_part(self, request: Request) -> str:
            return self._key

        async def generate(self, request: Request) -> Any:
            messages = [{"role": m.role, "content": m.content} for m in request.messages]
            text = "\n\n".join(message["content"] for message in messages)
            arguments = self._arguments
            if limit is not None and request.decoding.max_tokens is not None:
                arguments = {**arguments, "max_tokens": request.decoding.max_tokens}
            call = functools.partial(function, messages if takes_messages else text, **arguments)
            if inspect.iscoroutinefunction(function):
                answer = await call()
            else:
                answer, error = await _in_thread(call)
                if error is not None:
                    raise error
                if inspect.isawaitable(answer):  # of an object whose __call__ is async
                    answer = await answer
            return Reply(answer, "stop") if isinstance(answer, str) else answer

    def build(**arguments: Any) -> FunctionBackend:
        return FunctionBackend(**arguments)

    build.features = frozenset(accepted)  # type: ignore[attr-defined]
    signature = inspect.Signature([*parameters.values()])
    build.__signature__ = signature  # type: ignore[attr-defined]
    build.__doc__ = function.__doc__
    build.__name__ = name
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
            result = (call(), None)
        except Exception as error:
            result = (None, error)
        except BaseException as error:  # such as sys.exit(), which would end the whole run
            same_name = type(type(error).__name__, (RuntimeError,), {})
            result = (None, same_name(str(error)).with_traceback(error.__traceback__))
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, daemon=True).start()
    return await ended
