"""Calls the members of a plug-in, and reports each problem as a sentence."""

from __future__ import annotations

import contextlib
import inspect
import json
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec

from harness.engine.assessment import normalize_scores
from harness.errors import ConfigError, Unparseable, UserError
from harness.plugin_interface import interface_problems
from harness.ports import BASE_CLASSES, overrides_method
from harness.records import Score

# Texts that models write, or might write, and that must not crash a scorer.
HOSTILE_TEXTS = (
    "",
    " \n\t",
    "\x00\x1b[31m",
    "\ud83d half of a character",
    "{" * 2000,
    "[" * 2000 + "{x}",
    "null",
    "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
    "word " * 5000,
    *(unit * (6000 // len(unit)) + "!" for unit in ("a", "1", "a, ", " \n")),
)
UNPARSEABLE = ("check", "parse", "score", "score_parsed")  # methods that may raise `Unparseable`
SLOW_S = 20.0  # time limit in seconds for two calls of a member
NEARLY = 0.85  # lowest similarity (difflib) at which an unknown member counts as misspelt
WRONG = "This sentence of harness.plugins.testing is not an answer to anything."


class PlugInCheck:
    """A check that calls the members of a plug-in, and keeps the first problem of each."""

    def __init__(self, kind: str, plugin: Any) -> None:
        self.plugin = plugin
        base = BASE_CLASSES[kind]
        self._unfit = interface_problems(kind, plugin)
        self.found: dict[str, str] = {}
        self._slow: set[str] = set()
        self._types: dict[str, Any] = {}
        self._names: dict[tuple[str, str], list[str]] = {}
        self._decided: dict[tuple[str, str, str], bool] = {}
        with contextlib.suppress(ValueError):  # no signature, as of an extension module
            for option in inspect.signature(type(plugin)).parameters.values():
                untyped = option.annotation is option.empty
                if untyped and option.kind is option.POSITIONAL_OR_KEYWORD:
                    problem = f"has an option {option.name!r} without a type"
                    self.add("__init__", f"{problem}, so any value is accepted.")
        if self._unfit or not isinstance(base, type):
            return
        self._unfit += _misspelt(plugin, base)
        for name, hint in _attributes(base).items():
            # A property that raises ConfigError does not apply to these options.
            with self.calling(name), contextlib.suppress(ConfigError):
                value = getattr(plugin, name)
                self._types[name] = hint
                if problem := misfit(value, hint):
                    self.add(name, f"is {value!r:.40}, {problem}")
        for name, method in inspect.getmembers(base, inspect.isfunction):
            if name[0] != "_" and overrides_method(plugin, method):
                with self.calling(name):
                    self._types[name] = get_type_hints(method)["return"]
                    self._shape(name, method, getattr(plugin, name))

    def _shape(self, name: str, declared: Any, member: Any) -> None:
        if not callable(member):
            return self.add(name, f"is {member!r:.40}, not a method.")
        expected = [name for name in inspect.signature(declared).parameters if name != "self"]
        with contextlib.suppress(ValueError):  # no signature, as in extension modules
            optional = {"text"} & {*inspect.signature(member).parameters} - {*expected}
            try:
                inspect.signature(member).bind(*expected, **dict.fromkeys(optional))
            except TypeError:
                self.add(name, f"must accept the arguments ({', '.join(expected)}).")
        if inspect.iscoroutinefunction(declared) != inspect.iscoroutinefunction(member):
            must = "must be" if inspect.iscoroutinefunction(declared) else "must not be"
            self.add(name, f"{must} an async function.")

    def sentences(self) -> list[str]:
        """Return the problems found so far, each as a sentence."""
        return [*self._unfit, *(f"{member} {problem}" for member, problem in self.found.items())]

    def add(self, member: str, problem: str) -> None:
        """Add a problem, unless the member already has one."""
        self.found.setdefault(member, problem)

    @contextlib.contextmanager
    def calling(self, member: str, where: str = "") -> Iterator[None]:
        """Add a problem if a member raises an exception or is too slow in the block.

        Expected errors, such as `Unparseable` from ``score``, are raised again.
        """
        try:
            yield
        except _TooSlow:
            self._slow.add(member)
            slow = f"takes more than {SLOW_S:g} s for two calls{where}, and blocks"
            self.add(member, f"{slow} a run's others: does a regular expression backtrack?")
        except Exception as error:
            if isinstance(error, Unparseable) and member in UNPARSEABLE:
                raise
            if isinstance(error, UserError) and member == "constraint":  # this instance has none
                raise
            self.add(member, f"raises {type(error).__name__}{where}: {str(error)[:200]}")

    def call(self, member: str, *arguments: Any, where: str = "", **keywords: Any) -> Any:
        """Call a method twice, add any problem found, and return the first result.

        The result is None if it is missing or invalid. Expected exceptions are raised. ``where``
        says in problems which call caused them.
        """
        if member in self._slow:
            return None
        before = _copied(arguments)
        with self.calling(member, where), _time_limit():
            result = getattr(self.plugin, member)(*arguments, **keywords)
            problem = misfit(result, self._types[member])
            if problem := problem or self._scores_problem(member, result, *arguments[:1]):
                self.add(member, f"returns {result!r:.60}, {problem}")
                return None
            if getattr(self.plugin, member)(*arguments, **keywords) != result:
                self.add(member, f"returns something else when called again{where}.")
            if before not in (None, arguments):
                self.add(member, "modifies its arguments.")
            return result
        return None

    def optional(self, member: str, *arguments: Any) -> Any:
        """Return the result of `call`, or None if the plug-in does not have the method."""
        return self.call(member, *arguments) if self.has(member) else None

    def has(self, member: str) -> bool:
        """Return whether the plug-in has this member, which may depend on its options."""
        return member in self._types

    def elsewhere(self, results_of: Callable[..., dict[str, Any]], *arguments: Any) -> None:
        """Add a problem for each member whose result differs in another process.

        ``results_of`` returns the members' results for the arguments ``arguments``.
        """
        # Python orders sets of texts differently in each process, and hash() returns other numbers.
        code = (
            "import json, pickle, sys; sys.path[:] = json.loads(sys.argv[1]);"
            "of, given = pickle.load(sys.stdin.buffer); print(json.dumps(of(*given)))"
        )
        command = [sys.executable, "-I", "-c", code, json.dumps(sys.path)]
        with contextlib.suppress(
            pickle.PicklingError, TypeError, AttributeError, subprocess.CalledProcessError
        ):
            done = subprocess.run(  # noqa: S603 (this Python)
                command,
                input=pickle.dumps((results_of, arguments)),
                capture_output=True,
                check=True,
            )
            there = json.loads(done.stdout.splitlines()[-1])
            for member, seen in results_of(*arguments).items():
                if there[member] != seen:
                    problem = "returns something else in another process: is a set iterated, or"
                    self.add(member, f"{problem} hash() called?")

    def _scores_problem(self, member: str, result: Any, instance: Any = None) -> str:
        scores = {"": result} if isinstance(result, Score) else result
        if self._types[member] not in (Score, Mapping[str, Score]):
            return ""
        try:
            normalize_scores(scores, getattr(instance, "id", ""))
        except ConfigError as error:
            return f"which cannot be recorded. {error} Use None for a missing value."
        for score in scores.values():
            if score.value is None and score.passed is not None:
                return "with a verdict and no value."
        measure = getattr(self.plugin, "measure", None)
        if member in ("score", "score_of_no_answer") and measure not in (None, *scores):
            return f"without the primary metric {measure!r}."
        if member in ("score", "parse"):
            for name, score in scores.items():
                if not isinstance(score.value, bool):
                    continue
                key = (member, instance.id, name)
                decided = score.passed is not None
                if self._decided.setdefault(key, decided) != decided:
                    return "but this score has a verdict for one of True and False only."
            turn = (instance.id, repr(instance.data))  # turns of a conversation share the id
            names = self._names.setdefault(turn, sorted(scores))
            if names != sorted(scores):
                return f"with {sorted(scores)}, but {names} for another text: use Score(None)."
        if not scores and "criteria" not in self._types and member != "score_of_no_answer":
            return "which has no score."
        return ""


def _attributes(base: type) -> dict[str, Any]:
    """Return the types of a base class's attributes and properties, by name."""
    hints = {name: hint for name, hint in get_type_hints(base).items() if name[0] != "_"}
    for name, declared in inspect.getmembers(base, lambda member: isinstance(member, property)):
        hints[name] = get_type_hints(declared.fget)["return"]
    return hints


def _misspelt(plugin: object, base: type) -> Iterator[str]:
    """Yield a sentence for each public member that the base class does not know, but resembles."""
    names = {*getattr(plugin, "__dict__", {})}
    for kind in type(plugin).__mro__:
        if kind not in base.__mro__:
            names.update(vars(kind))
    members = {*dir(base), *_attributes(base)}
    for name in sorted(names - members):
        close = get_close_matches(name, members - names, n=1, cutoff=NEARLY)
        if close and name[0] != "_":
            yield f"Its member {name!r} is ignored: did you mean {close[0]!r}?"


class _TooSlow(BaseException):
    """A member did not return in time. Not an `Exception`, which a member may catch."""


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Raise `_TooSlow` in the block after `SLOW_S` seconds, if the platform allows."""

    def stop(*_: object) -> None:
        raise _TooSlow

    here = threading.current_thread() is threading.main_thread()
    if not here or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SLOW_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def misfit(value: object, kind: Any) -> str:
    """Return why a value does not match a type, or "" if it does.

    A value matches if it is the same after conversion to plain data and back.
    """
    if get_origin(kind) is ClassVar:
        [kind] = get_args(kind)
    origin = get_origin(kind)
    if type(None) in get_args(kind):
        if value is None:
            return ""
        origin = get_origin(get_args(kind)[0])
    if origin is Mapping and isinstance(value, Mapping):
        value = dict(value)
    elif origin is Sequence and isinstance(value, Sequence) and not isinstance(value, str):
        value = list(value)
    try:
        back = msgspec.convert(msgspec.to_builtins(value), kind)
    except Exception as error:
        return f"not {inspect.formatannotation(kind)}: {str(error)[:200]}."
    if type(back) is type(value) and back == value:
        return ""
    return f"not {back!r:.100}."


def _copied(arguments: object) -> object:
    with contextlib.suppress(Exception):
        copy = deepcopy(arguments)
        if copy == arguments:
            return copy
    return None
