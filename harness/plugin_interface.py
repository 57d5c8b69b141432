"""The interface of plug-ins: their parameters, their members, and errors in their code."""

from __future__ import annotations

import contextlib
import functools
import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError, HarnessError
from harness.ports import BASES, Task, task_problems

if TYPE_CHECKING:
    from pydantic import BaseModel


def problems(kind_name: str, plugin: object) -> list[str]:
    """Return sentences about what a plug-in lacks, or why it is no plug-in of this kind."""
    base = BASES[kind_name]
    if not isinstance(plugin, base):
        return [f"It does not inherit from harness.plugin.{base.__name__}."]
    required = _required(base)
    lacking = sorted(required.difference(dir(plugin))) if required else []
    faults = [f"It has no {' and no '.join(map(repr, lacking))}."] if lacking else []
    if isinstance(plugin, Task) and not lacking:
        faults += task_problems(plugin)
    return faults


@functools.cache  # a checker may be built for each row
def _required(base: Any) -> frozenset[str]:
    """Return the attributes that a base class declares without a value."""
    declared = inspect.get_annotations(base) if isinstance(base, type) else {}
    return frozenset(declared).difference(dir(base))


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
def parameters(plugin: Callable[..., Any], *, given: bool) -> dict[str, Parameter]:
    """Return a plug-in's options or, if ``given``, the parameters that the harness supplies."""
    with calling(f"The signature of {getattr(plugin, '__name__', plugin)}"):
        signature = inspect.signature(plugin, eval_str=True)
    kinds: tuple[Any, ...] = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    if given:
        kinds = (Parameter.KEYWORD_ONLY,)
    items = signature.parameters.items()
    return {name: parameter for name, parameter in items if parameter.kind in kinds}


@contextlib.contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn exceptions other than HarnessError in the block into a ConfigError about ``what``."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        description = f"{type(error).__name__}: {str(error)[:200]}"
        if cause := error.__cause__:
            description += f", caused by {type(cause).__name__}: {str(cause)[:200]}"
        problem = f"{what} fails ({description}; {Path(place.filename).name}, line {place.lineno})."
        raise ConfigError(problem, "Fix it, or remove it from the configuration.") from error
