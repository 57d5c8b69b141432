"""Support for code that users write: makes functions checkers, hashes source, and loads files."""

from __future__ import annotations

import hashlib
import inspect
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from harness.errors import ConfigError, HarnessError, option
from harness.records import Instance, Score


def checker_of(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a factory of checkers that call a function.

    Args:
        function: Takes the text to check and returns True or False, a number, a `Score`, or text
            that says what is wrong (empty if nothing is). If it has a parameter ``instance``, it
            gets the instance. All other parameters are options.
        name: The check's name in messages: the function's, or the path of its file.
    """
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    own = [one.replace(kind=one.POSITIONAL_OR_KEYWORD) for one in parameters]
    takes_instance = any(one.name == "instance" for one in own)

    class FunctionChecker:
        def __init__(self, **options: Any) -> None:
            self._options = options

        def check(self, text: str, instance: Instance[Any]) -> Score:
            given = {"instance": instance} if takes_instance else {}
            try:
                found = function(text, **given, **self._options)
            except HarnessError:
                raise
            except Exception as error:
                problem = _raised(error, name, instance.id, text)
                remedy = "A check must not raise: catch the error and return False or the reason."
                again = (
                    f"No paid reply is lost: fix the check, and run again with {option('rescore')}."
                )
                raise ConfigError(problem, f"{remedy} {again}") from error
            if isinstance(found, Score):
                return found
            if isinstance(found, bool):
                return Score(found, found)
            if isinstance(found, str):
                return Score(not found, not found, found)
            if isinstance(found, int | float):
                return Score(float(found))
            said = f"The check {name!r} returned {found!r:.60}"
            raise ConfigError(f"{said}.", "Return True or False, a number, a string or a Score.")

    def build(**options: Any) -> FunctionChecker:
        return FunctionChecker(**options)

    options = [one for one in own if one.name != "instance"]
    build.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    build.__doc__, build.__name__ = function.__doc__, function.__name__
    build.__wrapped__ = function  # type: ignore[attr-defined]
    return build


def _raised(error: Exception, name: str, instance: str, text: str) -> str:
    """Describe an exception raised by a check, with the line in the check's own file."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    said = f"The check {name!r} raised {type(error).__name__} on instance {instance!r:.60}"
    return f"{said}: {str(error)[:200]}{place}. The answer begins: {text[:60]!r}."


def source_sha256(plugin: Callable[..., Any]) -> str:
    """Return a hash of the source of a function or class.

    If a function's source is not available, its bytecode is hashed. If a class's source is not
    available, the result is "".
    """
    plugin = inspect.unwrap(plugin)
    try:
        source = inspect.getsource(plugin)
    except (OSError, TypeError):  # defined in a program from standard input, for example
        if not inspect.isfunction(plugin):
            return ""
        source = repr(_bytecode(plugin.__code__))
    return hashlib.sha256(source.encode()).hexdigest()


def _bytecode(value: object) -> object:
    """Return a code object's content, in a form whose ``repr`` is the same in every process."""
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, [_bytecode(one) for one in value.co_consts]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


class SourceLoader(SourceFileLoader):
    """A loader of Python files that neither reads nor writes bytecode.

    Python considers bytecode current if the file's size and its modification time in whole seconds
    have not changed. A file that is edited within the same second could run in its old version.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file, compiled from its source."""
        return self.source_to_code(self.get_data(self.path), self.path)
