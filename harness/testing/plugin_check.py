"""Calls the members of a plug-in and notes what is wrong with them."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, get_origin, get_type_hints

import msgspec

from harness import ports
from harness.errors import Unparseable
from harness.plugins import problems
from harness.records import Score

HOSTILE_TEXTS = (
    "",
    " \n\t",
    "\x00\x1b[31m",
    "\ud83d half of a character",
    "{" * 2000,
    "null",
    "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
    "word " * 5000,
)
"""Texts that models write, or could, and that no scorer may crash on."""

WRONG = "This sentence of harness.testing is not an answer to anything."


class PlugInCheck:
    """Calls a plug-in's members and keeps the first problem of each.

    What a member must be or return is what its Protocol in `harness.ports` declares.
    """

    def __init__(self, kind: str, plugin: Any) -> None:
        self.plugin = plugin
        self._unfit = problems(kind, plugin)
        self._found: dict[str, str] = {}
        self._types: dict[str, Any] = {}
        with contextlib.suppress(ValueError):  # no signature, as of an extension module
            for option in inspect.signature(type(plugin)).parameters.values():
                if (
                    option.kind is option.POSITIONAL_OR_KEYWORD
                    and option.annotation is option.empty
                ):
                    problem = f"has an option {option.name!r} without a type: any value would do."
                    self.add("__init__", problem)
        for protocol in ports.CAPABILITIES[kind]:
            for name, declared in vars(protocol).items():
                if name.startswith("_"):
                    continue
                method = declared.fget if isinstance(declared, property) else declared
                with self.calling(name):  # a property may raise
                    if hasattr(plugin, name):
                        self._types[name] = get_type_hints(method)["return"]
                        self._shape(name, declared, getattr(plugin, name))

    def _shape(self, name: str, declared: Any, member: Any) -> None:
        if isinstance(declared, property):
            problem = misfit(member, self._types[name])
            return self.add(name, f"is {member!r:.40}, {problem}") if problem else None
        if not callable(member):
            return self.add(name, f"is {member!r:.40}, not a method.")
        wanted = list(inspect.signature(declared).parameters)[1:]
        with contextlib.suppress(ValueError):  # no signature, as of an extension module
            optional = {"text"} & {*inspect.signature(member).parameters} - {*wanted}
            try:
                inspect.signature(member).bind(*wanted, **dict.fromkeys(optional))
            except TypeError:
                self.add(name, f"is called with the arguments ({', '.join(wanted)}).")
        if inspect.iscoroutinefunction(declared) != inspect.iscoroutinefunction(member):
            must = "must be" if inspect.iscoroutinefunction(declared) else "must not be"
            self.add(name, f"{must} an async function.")

    def sentences(self) -> list[str]:
        """Return what is wrong, with one sentence per member."""
        return [*self._unfit, *(f"{member} {problem}" for member, problem in self._found.items())]

    def add(self, member: str, problem: str) -> None:
        """Add a problem, unless the member has one already."""
        self._found.setdefault(member, problem)

    @contextlib.contextmanager
    def calling(self, member: str, where: str = "") -> Iterator[None]:
        """Report an exception of a member; `Unparseable` passes where it is a valid answer."""
        try:
            yield
        except Exception as error:
            if isinstance(error, Unparseable) and member in ("score", "score_parsed", "parse"):
                raise
            self.add(member, f"raises {type(error).__name__}{where}: {str(error)[:200]}")

    def call(self, member: str, *arguments: Any, where: str = "", **named: Any) -> Any:
        """Call a member, twice; return what it returns, None if that is not valid."""
        before = _copied(arguments)
        with self.calling(member, where):
            result = getattr(self.plugin, member)(*arguments, **named)
            problem = misfit(result, self._types[member]) or self._scores_problem(member, result)
            if problem:
                self.add(member, f"returns {result!r:.60}, {problem}")
                return None
            if getattr(self.plugin, member)(*arguments, **named) != result:
                self.add(member, f"returns something else when it is called again{where}.")
            if before not in (None, arguments):
                self.add(member, "changes what it is given.")
            return result
        return None

    def optional(self, member: str, *arguments: Any) -> Any:
        """Call a member if the plug-in has it."""
        return self.call(member, *arguments) if member in self._types else None

    def _scores_problem(self, member: str, result: Any) -> str:
        scores = {"": result} if isinstance(result, Score) else result
        if self._types[member] not in (Score, Mapping[str, Score]):
            return ""
        for score in scores.values():
            if score.value is not None and not math.isfinite(score.value):
                return "whose value is not finite: a missing value is None."
            if score.value is None and score.passed is not None:
                return "with a verdict and no value."
        measure = getattr(self.plugin, "measure", None)
        if member in ("score", "score_of_no_answer") and measure not in (None, *scores):
            return f"without the primary metric {measure!r}."
        return "" if scores else "which has no score."


def misfit(value: object, kind: Any) -> str:
    """Return why a value is not of a type all the way down; empty if it is.

    It must come back from plain data unchanged, as the run's files need it: numpy's numbers do not.
    """
    origin = get_origin(kind)
    if origin is Mapping and isinstance(value, Mapping):
        value = dict(value)
    elif origin is Sequence and isinstance(value, Sequence) and not isinstance(value, str):
        value = list(value)
    try:
        back = msgspec.convert(msgspec.to_builtins(value), kind)
    except Exception as error:
        return f"not {inspect.formatannotation(kind)}: {str(error)[:200]}."
    return "" if type(back) is type(value) and back == value else f"not {back!r:.100}."


def _copied(arguments: object) -> object:
    """Return a copy to compare with later; None if the data cannot be copied or compared."""
    with contextlib.suppress(Exception):
        copy = deepcopy(arguments)
        return copy if copy == arguments else None
    return None
