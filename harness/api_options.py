"""The keyword options of the Python API: their types, and the check that refuses others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypedDict, TypeVar

from harness.errors import UserError, for_python, nearest

F = TypeVar("F", bound=Callable[..., Any])


class RunOptions(TypedDict, total=False):
    """Options of `run` and `run_all`, which the docstring of `run` explains."""

    model: str
    overrides: Mapping[str, Any]
    variant: str
    limit: int
    name: str
    fresh: bool
    rescore: bool
    progress: bool


class EvaluateOptions(TypedDict, total=False):
    """Options of `evaluate`, which its docstring explains."""

    overrides: Mapping[str, Any]
    limit: int
    budget: float
    judge: str
    name: str
    fresh: bool
    rescore: bool
    progress: bool


_DEFAULTS = {"progress": True, "fresh": False, "rescore": False}


def strict_options(options: Any) -> Callable[[F], F]:
    """Return a decorator that refuses keywords other than those of ``options``, a TypedDict.

    A misspelt ``limit`` could otherwise cost money.
    """

    def decorated(function: F) -> F:
        own = inspect.signature(function)
        fixed = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        names = [one.name for one in fixed]

        def check(given: Mapping[str, Any]) -> None:
            for name in given.keys() - {*names, *options.__annotations__}:
                hint = nearest(name, options.__annotations__)
                raise TypeError(f"{function.__name__}() has no option {name!r}. {hint}")

        @wraps(function)
        def blocking(*arguments: Any, **given: Any) -> Any:
            check(given)
            with for_python():
                try:
                    return function(*arguments, **given)
                except KeyboardInterrupt as error:
                    raise KeyboardInterrupt(*error.args) from None  # without the frames inside
                except UserError as error:
                    raise error.with_traceback(None)  # noqa: B904 (its own cause stays)

        @wraps(function)
        async def awaited(*arguments: Any, **given: Any) -> Any:
            check(given)
            with for_python():
                return await function(*arguments, **given)

        keywords = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_DEFAULTS.get(name),
                annotation=kind.__forward_arg__ + ("" if name in _DEFAULTS else " | None"),
            )
            for name, kind in options.__annotations__.items()
        ]
        made: Any = awaited if inspect.iscoroutinefunction(function) else blocking
        made.__signature__ = own.replace(parameters=[*fixed, *keywords])
        return made  # type: ignore[no-any-return]

    return decorated
