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
from harness.ports import BASE_CLASSES, Task, task_problems

if TYPE_CHECKING:
    from pydantic import BaseModel


def interface_problems(kind_name: str, plugin: object) -> list[str]:
    """Return a sentence for each way in which a plug-in violates the interface of its kind."""
    base = BASE_CLASSES[kind_name]
    if not isinstance(plugin, base):
        return [f"It does not inherit from harness.plugin.{base.__name__}."]
    required = _required_attributes(base)
    missing = sorted(required.difference(dir(plugin))) if required else []
    if missing:
        return [f"It has no {' and no '.join(map(repr, missing))}."]
    return list(task_problems(plugin)) if isinstance(plugin, Task) else []


@functools.cache  # a checker may be built for each row
def _required_attributes(base: Any) -> frozenset[str]:
    """Return the names of attributes that a base class annotates without a value."""
    annotated = inspect.get_annotations(base) if isinstance(base, type) else {}
    return frozenset(annotated).difference(dir(base))


@functools.cache
def options_model(plugin: Callable[..., Any]) -> type[BaseModel]:
    """Build the Pydantic model of a plug-in's options (cached: it takes 1 ms)."""
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {}
    for name, parameter in option_parameters(plugin).items():
        annotation = parameter.annotation
        if annotation is parameter.empty:
            annotation = Any
        default = parameter.default
        if default is parameter.empty:
            default = ...
        fields[name] = (annotation, default)
    config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)
    with warnings.catch_warnings():
        # Pydantic warns about options named like one of its methods, such as "schema".
        warnings.simplefilter("ignore", UserWarning)
        return create_model("Options", __config__=config, **fields)


@functools.cache
def option_parameters(plugin: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the positional parameters of a plug-in, which are its options in run files."""
    return _parameters(plugin, Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@functools.cache
def supplied_parameters(plugin: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the keyword-only parameters of a plug-in, which the harness supplies."""
    return _parameters(plugin, Parameter.KEYWORD_ONLY)


def _parameters(plugin: Callable[..., Any], *kinds: Any) -> dict[str, Parameter]:
    with wrap_errors(f"The signature of {getattr(plugin, '__name__', plugin)}"):
        signature = inspect.signature(plugin, eval_str=True)
    items = signature.parameters.items()
    return {name: parameter for name, parameter in items if parameter.kind in kinds}


@contextlib.contextmanager
def wrap_errors(subject: str) -> Iterator[None]:
    """Turn exceptions other than HarnessError in the block into a ConfigError about ``subject``."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        description = f"{type(error).__name__}: {str(error)[:200]}"
        if cause := error.__cause__:
            description += f", caused by {type(cause).__name__}: {str(cause)[:200]}"
        problem = (
            f"{subject} fails ({description}; {Path(frame.filename).name}, line {frame.lineno})."
        )
        raise ConfigError(problem, "Fix it, or remove it from the configuration.") from error
