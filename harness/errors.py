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

FARTHEST_S = 10 * 365 * 86_400.0  # a later time would be no date


def time_after(seconds: float) -> str:
    """Return the local time in a number of seconds, with the date unless it is today."""
    then = datetime.now() + timedelta(seconds=min(seconds, FARTHEST_S))
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


def cannot_read(path: Path, error: OSError) -> DataMissing:
    """Return the error for a file that cannot be read."""
    problem = f"Cannot read {path}: {error.strerror}."
    return DataMissing(problem, "Check the path and its permissions.")


class DataInvalid(UserError):
    """Data, such as a file, a row or a schema, does not have the expected content."""


@contextlib.contextmanager
def raised_as(kind: type[UserError], where: str = "") -> Iterator[None]:
    """Re-raise a ConfigError or DataInvalid as ``kind``, with ``where`` before its message.

    An error of a more specific kind stays one.
    """
    try:
        yield
    except (ConfigError, DataInvalid) as error:
        kind = type(error) if isinstance(error, kind) else kind
        raise kind(f"{where}{error.message}", error.remedy) from None


class RunConflict(UserError):
    """A folder is in use or has other content, or runs cannot be continued, compared or checked."""


class StoreFailed(UserError):
    """A run folder, the cache or another file of the harness cannot be read or written."""


class Unparseable(HarnessError):
    """A task, checker or judge cannot read an answer: an outcome, not a failure of the run."""

    scores: Mapping[str, Any] = MappingProxyType({})  # the scores known nevertheless, by name


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


def nearest(name: str, valid: Iterable[str], prefix: str = "") -> str:
    """Return a hint for a mistyped name: the closest valid name or, if none is close, all of them.

    ``prefix`` is put in front of the closest name. The name itself is never the hint.
    """
    choices = sorted({choice for choice in valid if choice and prefix + choice != name})
    close = _close(name, choices)
    if not close:
        folded = {choice.lower(): choice for choice in choices}
        close = [folded[lowered] for lowered in _close(name.lower(), folded)]
    if close:
        return f"Did you mean {prefix + close[0]!r}?"
    return f"Valid names: {', '.join(choices)}." if choices else ""


def refuse_unknown(name: str, names: Collection[str], problem: str) -> None:
    """Raise ConfigError, suggesting the nearest name, if ``name`` is not empty or in ``names``."""
    if name and name not in names:
        raise ConfigError(problem, nearest(name, names))


def _close(name: str, choices: Iterable[str]) -> list[str]:
    """Return the closest choice, if any. Names with other first letters must be more similar."""
    same_initial = [choice for choice in choices if choice[0] == name[:1]]
    return get_close_matches(name, [*choices], n=1, cutoff=0.7) or get_close_matches(
        name, same_initial, n=1, cutoff=0.6
    )


@contextlib.contextmanager
def keys_of(where: str) -> Iterator[None]:
    """In a ``with`` block, make errors name a model's keys ``{where}.KEY``, not ``model.KEY``."""
    try:
        yield
    except HarnessError as error:
        error.message, error.remedy = (
            re.sub(r"(?<![\w.])model\.(?=\w)", f"{where}.", text)
            for text in (error.message, error.remedy)
        )
        raise


_PYTHON = "Python"
_command = ContextVar("_command", default="")  # put before options; `_PYTHON`: as keywords


@contextlib.contextmanager
def for_command(command: str) -> Iterator[None]:
    """In a ``with`` block, make messages put ``command`` before the options that they name."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def for_python() -> contextlib.AbstractContextManager[None]:
    """In a ``with`` block, make messages name options as written in Python: ``fresh=True``.

    A surrounding `for_command` takes precedence.
    """
    return for_command(_command.get() or _PYTHON)


def option(name: str, value: str = "") -> str:
    """Return an option as the user writes it: on the command line or, in Python, as a keyword.

    >>> option("fresh"), option("name", "NEW")
    ('--fresh', '--name NEW')
    >>> with for_python():
    ...     option("fresh"), option("name", "NEW")
    ('fresh=True', "name='NEW'")
    >>> with for_command("harness run quality.yaml"), for_python():
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
    tool = (Path(sys.prefix) / "uv-receipt.toml").is_file()  # made by `uv tool install`
    return f"{'uv tool' if tool else 'pip'} install '{harness.DISTRIBUTION}[{extra}]'"
