"""The interface of plug-ins: their parameters, their members, and errors in their code."""

from __future__ import annotations

import contextlib
import functools
import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError, HarnessError
from harness.ports import CAPABILITIES

if TYPE_CHECKING:
    from pydantic import BaseModel


NEARLY = 0.85  # lowest similarity (difflib) at which an unknown member counts as misspelt


def _members(protocol: type) -> set[str]:
    return {
        name
        for base in protocol.__mro__[:-1]
        if base.__module__ != "typing"
        for name in vars(base)
        if not name.startswith("_") or name == "__call__"
    }


def problems(kind_name: str, plugin: object) -> list[str]:
    """Return sentences about members of a plug-in that are missing, misspelt or invalid.

    A plug-in that has some members of an optional Protocol must have all of them, unless those
    members also belong to another optional Protocol that it has completely.
    """
    present = (name for name in dir(plugin) if not name.startswith("_") or name == "__call__")
    found = [*_member_problems(kind_name, frozenset(present))]
    if kind_name == "tasks" and getattr(plugin, "on_truncated", "fail") not in ("fail", "grade"):
        found.append("Its 'on_truncated' is neither 'fail' nor 'grade'.")
    return found


@functools.cache  # a checker may be built for each row
def _member_problems(kind_name: str, present: frozenset[str]) -> list[str]:
    required, *optional = CAPABILITIES[kind_name]
    complete = [p for p in optional if _members(p) <= present]
    explained = set[str]().union(*map(_members, complete))
    found = []
    for protocol in (required, *optional):
        members = _members(protocol)
        missing = sorted(members - present)
        if missing and (protocol is required or members & present - explained):
            why = "" if protocol is required else f", which {protocol.__name__} needs"
            found.append(f"It has no {' and no '.join(map(repr, missing))}{why}.")
    known = set[str]().union(*map(_members, CAPABILITIES[kind_name]))
    for name in sorted(present - known):
        close = get_close_matches(name, known - present, n=1, cutoff=NEARLY)
        if close:
            found.append(f"Its member {name!r} is ignored: did you mean {close[0]!r}?")
    return found


@functools.cache
def options_model(plugin: Callable[..., Any]) -> type[BaseModel]:
    """Return the Pydantic model of a plug-in's options, cached because it takes 1 ms to build."""
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {}
    for key, p in parameters(plugin, given=False).items():
        annotation = Any if p.annotation is p.empty else p.annotation
        fields[key] = (annotation, ... if p.default is p.empty else p.default)
    config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)
    with warnings.catch_warnings():
        # Pydantic warns about options named like one of its methods, such as "schema".
        warnings.simplefilter("ignore", UserWarning)
        return create_model("Options", __config__=config, **fields)


@functools.cache
def parameters(plugin: Callable[..., Any], *, given: bool) -> dict[str, inspect.Parameter]:
    """Return a plug-in's options or, if ``given``, the parameters that the harness supplies."""
    with calling(f"The signature of {getattr(plugin, '__name__', plugin)}"):
        signature = inspect.signature(plugin, eval_str=True)
    return {
        name: parameter
        for name, parameter in signature.parameters.items()
        if (parameter.kind is parameter.KEYWORD_ONLY) is given
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


@contextlib.contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn exceptions other than HarnessError in the block into a ConfigError about ``what``."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {str(error)[:200]}"
        if cause := error.__cause__:
            said += f", caused by {type(cause).__name__}: {str(cause)[:200]}"
        problem = f"{what} fails ({said}; {Path(place.filename).name}, line {place.lineno})."
        raise ConfigError(problem, "Fix it, or remove it from the configuration.") from error
