"""The hierarchy of the harness's errors. Some modules define further subclasses.

A `UserError` ends the command and is shown to the user in one or two lines: what happened, where,
and what to do next. A `CallError` is a failure of a call to a provider. A `TransientError` is
retried, a `FatalCallError` ends the run, a `PromptRefused` counts as an answer, a `Crashed` is a
failure of the system under test (the outcome ``crashed``), and any other `CallError` becomes an
attempt with outcome ``error``.
"""

import contextlib
import importlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import harness

MAX_OFFSET_S = 10 * 365 * 86_400.0  # ten years; `datetime` cannot represent all later times


def format_time_after(seconds: float) -> str:
    """Format the local time ``seconds`` from now, with the date unless it is today."""
    then = datetime.now() + timedelta(seconds=min(seconds, MAX_OFFSET_S))
    return f"{then:%H:%M:%S}" if then.date() == datetime.now().date() else f"{then:%Y-%m-%d %H:%M}"


class HarnessError(Exception):
    """An error with a message (what happened, and where) and a remedy (what the user can do)."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UserError(HarnessError):
    """An error that ends the command with a message and no traceback."""


class ConfigError(UserError):
    """A run file, override or option is not valid."""


class ExtraMissing(ConfigError):
    """A package of an extra is not installed. The message contains the command that installs it."""


class SecretMissing(UserError):
    """A key that a backend needs is set neither in the environment nor in ``.env``."""


class DataMissing(UserError):
    """A file, data set, run or value that is needed is missing or cannot be read."""


def unreadable_file_error(path: Path, error: OSError) -> DataMissing:
    """Return the error for a file that cannot be read."""
    problem = f"Cannot read {path}: {error.strerror}."
    return DataMissing(problem, "Check the path and its permissions.")


class DataInvalid(UserError):
    """Data, such as a file, a row or a schema, does not have the expected content."""


@contextlib.contextmanager
def reraise_as(kind: type[UserError], prefix: str = "") -> Iterator[None]:
    """Re-raise a ConfigError or DataInvalid as another class, with a prefix to its message.

    Args:
        kind: The class to raise. An error of one of its subclasses keeps its class.
        prefix: Text in front of the message, such as the name of a file.
    """
    try:
        yield
    except (ConfigError, DataInvalid) as error:
        if isinstance(error, kind):
            kind = type(error)
        raise kind(f"{prefix}{error.message}", error.remedy) from None


class RunConflict(UserError):
    """A folder is in use or has other content, or runs cannot be continued, compared or checked."""


class StoreFailed(UserError):
    """A run folder, the cache or another file of the harness cannot be read or written."""


class Unparseable(HarnessError):
    """A task, checker or judge cannot read an answer: an outcome, not a failure of the run."""

    scores: Mapping[str, Any] = MappingProxyType({})  # those that could be measured, by name


class ShotLeaks(HarnessError):
    """A few-shot example would reveal an instance's answer. The run ends before the call."""


class ReplayMissing(UserError):
    """The replayed recording has no answer to a prompt."""


FailureKind = Literal[
    "rate_limited",  # 429: too many requests or tokens
    "crowded",  # 429: more calls in flight than the provider accepts
    "overloaded",  # 503 or 529: the provider is overloaded
    "server_failed",  # 409 or 5xx
    "interrupted",  # the provider abandoned a started answer (408, 504); may be billed
    "timed_out",  # no complete answer in time; may be billed
    "unreachable",  # no connection, so the request was never sent
    "connection_lost",  # the connection broke after the request was sent; may be billed
    "malformed",  # the body is not what the protocol promises; may be billed
]
"""The kinds of failure after which a call is worth retrying."""


class CallError(HarnessError):
    """A failed call. Unless a subclass says otherwise, its attempt has the outcome ``error``.

    ``partial`` is the part of a streamed answer that arrived before the failure.
    """

    kind: FailureKind | None = None  # None if no retry can help
    retry_after: float | None = None
    partial = ""
    shared = False  # whether it failed other calls, too, which may be at fault
    billed = False  # whether the provider has answered, so that it may bill the call
    exception = ""  # in a backend's code: its type and place, such as "KeyError at app.py:12"
    latency_s: float | None = None  # None if never sent, or if it shares the call of another one


class RequestRejected(CallError):
    """This request is rejected, for example because of its length."""


class PromptTooLong(RequestRejected):
    """The prompt is longer than the model's context, or than the provider accepts."""


class PromptRefused(RequestRejected):
    """The provider's content filter refuses this prompt: the outcome ``refused``."""


class Crashed(CallError):
    """The system under test raised an exception or hung: the outcome ``crashed``, a failure."""


class TransientError(CallError):
    """A failure that is worth retrying.

    ``retry_after`` is the number of seconds to wait first (None: the provider did not say).
    """

    def __init__(
        self,
        message: str,
        remedy: str = "",
        *,
        kind: FailureKind = "server_failed",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, remedy)
        self.kind = kind
        self.retry_after = retry_after


class FatalCallError(CallError, UserError):
    """A failure that all calls would share, such as a wrong key. It ends the run."""


class AccessDenied(FatalCallError):
    """The key (401) or the access to a model or address (403, 404) is rejected.

    It ends the run unless other calls are answered, because gateways pass on the 403 or 404 of a
    single prompt.
    """


class BudgetBroken(FatalCallError):
    """A call has cost more than its maximum, so that a budget cannot be kept."""


AFFECTS_ALL_RUNS = (BudgetBroken, RunConflict, StoreFailed)
"""Errors after which a command starts no other run. Any other error may concern one run alone."""


def suggest_name(name: str, valid_names: Iterable[str], prefix: str = "") -> str:
    """Return a hint for a mistyped name: the closest valid name or, if none is close, all of them.

    Args:
        name: The mistyped name, which is never suggested.
        valid_names: The names to choose from.
        prefix: Text in front of the suggested name.
    """
    choices = sorted({choice for choice in valid_names if choice and prefix + choice != name})
    closest = _closest_choice(name, choices)
    if not closest:
        by_lower_case = {choice.lower(): choice for choice in choices}
        closest = by_lower_case.get(_closest_choice(name.lower(), by_lower_case), "")
    if closest:
        return f"Did you mean {prefix + closest!r}?"
    return f"Valid names: {', '.join(choices)}." if choices else ""


def check_name(name: str, valid_names: Collection[str], problem: str) -> None:
    """Check that a name is valid or empty.

    Raises:
        ConfigError: If it is not, with the message ``problem`` and a suggestion.
    """
    if name and name not in valid_names:
        raise ConfigError(problem, suggest_name(name, valid_names))


def _closest_choice(name: str, choices: Iterable[str]) -> str:
    """Return the choice most similar to a name, or "" if none is similar.

    Choices with another first letter must be more similar.
    """
    same_initial = [choice for choice in choices if choice[0] == name[:1]]
    matches = get_close_matches(name, [*choices], n=1, cutoff=0.7)
    matches = matches or get_close_matches(name, same_initial, n=1, cutoff=0.6)
    return matches[0] if matches else ""


_MODEL_SECTION = re.compile(r"(?<![\w.])model\.(?=\w)")  # the start of a key such as model.name


@contextlib.contextmanager
def rename_model_keys(section: str) -> Iterator[None]:
    """In a ``with`` block, write the keys ``model.KEY`` in errors as ``SECTION.KEY``.

    Args:
        section: The dotted path of the section that sets the model, such as ``judges.0.model``.
    """
    try:
        yield
    except HarnessError as error:
        error.message = _MODEL_SECTION.sub(f"{section}.", error.message)
        error.remedy = _MODEL_SECTION.sub(f"{section}.", error.remedy)
        raise


_PYTHON = "Python"
_command = ContextVar("_command", default="")  # see `command_style`; `_PYTHON` for `python_style`


@contextlib.contextmanager
def command_style(command: str) -> Iterator[None]:
    """In a ``with`` block, let `option` put a command before options: ``harness run x --fresh``."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def python_style() -> contextlib.AbstractContextManager[None]:
    """In a ``with`` block, write options in messages as Python keywords: ``fresh=True``.

    A surrounding `command_style` takes precedence.
    """
    return command_style(_command.get() or _PYTHON)


def option(name: str, value: str = "") -> str:
    """Return an option as the user writes it: on the command line or, in Python, as a keyword.

    >>> option("fresh"), option("name", "NEW")
    ('--fresh', '--name NEW')
    >>> with python_style():
    ...     option("fresh"), option("name", "NEW")
    ('fresh=True', "name='NEW'")
    >>> with command_style("harness run quality.yaml"), python_style():
    ...     option("fresh")
    'harness run quality.yaml --fresh'
    """
    command = _command.get()
    if command == _PYTHON:
        return f"{name}={value!r}" if value else f"{name}=True"
    return f"{command} --{name} {value}".strip()


def import_extra(module: str, extra: str) -> Any:
    """Import and return a module of an extra, or raise ExtraMissing if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != library:
            raise  # the library is installed but broken
        command = install_command(extra)
        raise ExtraMissing(f"This needs the package {library!r}: {command}") from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra into this environment."""
    is_uv_tool = (Path(sys.prefix) / "uv-receipt.toml").is_file()  # made by `uv tool install`
    installer = "uv tool" if is_uv_tool else "pip"
    return f"{installer} install '{harness.DISTRIBUTION}[{extra}]'"
