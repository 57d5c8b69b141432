"""The Python API: run, read and compare runs, and define plug-ins, in a script or notebook.

Examples:
    >>> import harness
    >>> run = harness.run("quickstart", limit=13, progress=False)
    >>> run
    RunResult('quickstart', pass rate 0.827 ± 0.072, 95% 0.610-0.952, n=52, simulated)
    >>> len(run.samples()), len(run.attempts())
    (52, 81)
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute_all
from harness.engine.infrastructure import set_copies_aside
from harness.engine.models import Resources, ignored_url_warnings
from harness.engine.preparation import prepare_all, prepare_data
from harness.engine.run_files import find_named_run, read_runs, register_checker
from harness.errors import (
    ConfigError,
    HarnessError,
    UserError,
    check_name,
    python_style,
    suggest_name,
)
from harness.execution import set_code_permission
from harness.plugin_loader import register
from harness.results import RunResult
from harness.store.runs import move_runs_aside
from harness.terminal.console import say
from harness.terminal.display import Display

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


_OPTION_DEFAULTS = {"progress": True, "fresh": False, "rescore": False}


def strict_options(options: Any) -> Callable[[F], F]:
    """Return a decorator that rejects unknown keywords of functions of the Python API.

    A misspelt ``limit`` could otherwise cost money.

    Args:
        options: The TypedDict of a function's options, which are its last parameter.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *fixed, _ = signature.parameters.values()  # without the options
        valid_names = {*options.__annotations__, *(parameter.name for parameter in fixed)}

        def check_names(keywords: Mapping[str, Any]) -> None:
            for name in keywords.keys() - valid_names:
                hint = suggest_name(name, options.__annotations__)
                raise TypeError(f"{function.__name__}() has no option {name!r}. {hint}")

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            check_names(keywords)
            with python_style():
                try:
                    return function(*arguments, **keywords)
                except KeyboardInterrupt as error:
                    raise KeyboardInterrupt(*error.args) from None  # without the frames inside
                except UserError as error:
                    raise error.with_traceback(None)  # noqa: B904 (its own cause stays)

        @wraps(function)
        async def call_async(*arguments: Any, **keywords: Any) -> Any:
            check_names(keywords)
            with python_style():
                return await function(*arguments, **keywords)

        strict: Any = call_async if inspect.iscoroutinefunction(function) else call
        parameters = list(fixed)
        for name, annotation in options.__annotations__.items():
            parameters.append(_option_parameter(name, annotation))
        strict.__signature__ = signature.replace(parameters=parameters)
        return strict  # type: ignore[no-any-return]

    return decorate


def _option_parameter(name: str, annotation: Any) -> inspect.Parameter:
    """Return the keyword-only parameter for an option, as `help` shows it."""
    type_name = annotation.__forward_arg__
    if name not in _OPTION_DEFAULTS:
        type_name += " | None"
    default = _OPTION_DEFAULTS.get(name)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=type_name)


P = TypeVar("P", bound=type[Any])
R = TypeVar("R")


@strict_options(RunOptions)
def run(file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]) -> RunResult:
    """Run a run file, or one of its variants, and return the run.

    A file with variants requires ``variant``. An interrupted run is resumed. If calls fail or the
    budget is spent, the result's ``metrics`` say what is missing, and repeating the call resumes
    the run.

    Args:
        file: A run file's path, the name of a shipped one ("quickstart"), or its content, in which
            ``task.rows`` may be a list of rows and ``task.checks`` may contain functions.
        model: The model to use instead of the file's, such as "openai/gpt-4o-mini".
        overrides: Values by dotted key: {"decoding.temperature": 0}.
        variant: The variant to run, if the file has variants.
        limit: Maximum number of instances, taken round-robin over groups.
        name: The run's name (default: the file's, and the model's if given).
        fresh: Start a new run, and rename an earlier one of this name to NAME-DATE.
        rescore: Score the recorded answers again if only the checks or their data have changed.
        progress: Show the progress.

    Raises:
        HarnessError: If the run cannot start or continue. The replies so far are saved.
        KeyboardInterrupt: After Ctrl-C, once the calls in flight have ended.

    Examples:
        >>> import harness
        >>> weak = {"model.accuracy": 0.2}
        >>> harness.run("quickstart", overrides=weak, limit=13, name="weak", progress=False)
        RunResult('weak', pass rate 0.712 ± 0.079, 95% 0.504-0.870, n=52, simulated)
    """
    variant = _required_variant(file, options)
    return run_all(file, **options)[variant]


@strict_options(RunOptions)
async def arun(file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]) -> RunResult:
    """Async version of `run`."""
    variant = _required_variant(file, options)
    return (await arun_all(file, **options))[variant]


@strict_options(RunOptions)
def run_all(
    file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]
) -> dict[str, RunResult]:
    """Run all variants of a run file, or resume them.

    The arguments are those of `run`. With ``variant``, only this variant is run.

    Returns:
        The runs by variant, or by "" if the file has none. As in `run`, they may be incomplete.
        Variants that have not started because the budget was spent are omitted.

    Raises:
        HarnessError: If a run cannot start or continue. The replies so far are saved. The other
            runs are finished first, unless the error affects them as well.
        KeyboardInterrupt: After Ctrl-C, once the calls in flight have ended.
    """
    display = Display({}, visible=options.get("progress", True))
    return run_blocking(display, partial(_run_all, display, file, **options))


def run_blocking(display: Display, create_coroutine: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run a coroutine to its end, also within a notebook's running event loop.

    Args:
        display: The display that the coroutine uses. It is notified of an interrupt.
        create_coroutine: Creates the coroutine.

    Raises:
        KeyboardInterrupt: After Ctrl-C, with a message that says what is saved.
    """
    try:
        in_notebook = asyncio.get_running_loop().is_running()
    except RuntimeError:
        in_notebook = False
    try:
        if not in_notebook:
            return asyncio.run(create_coroutine())
        with ThreadPoolExecutor(1, "harness") as pool:  # next to the notebook's event loop
            future = pool.submit(copy_context().run, lambda: asyncio.run(create_coroutine()))
            try:
                return future.result()
            except KeyboardInterrupt:
                display.interrupt()
                raise
    except (KeyboardInterrupt, asyncio.CancelledError):
        runs = ", ".join(display.tallies) or "none"
        message = f"Interrupted. All finished answers are saved (runs: {runs})."
        raise KeyboardInterrupt(f"{message} The same call continues.") from None


@strict_options(RunOptions)
async def arun_all(
    file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]
) -> dict[str, RunResult]:
    """Async version of `run_all`."""
    return await _run_all(Display({}, visible=options.get("progress", True)), file, **options)


async def _run_all(
    display: Display, file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]
) -> dict[str, RunResult]:
    with set_code_permission("allowed"):
        base_name, runs = read_runs(
            file,
            model=options.get("model", ""),
            further=options.get("overrides", {}),
            limit=options.get("limit"),
        )
    base_name = options.get("name") or base_name
    variant = options.get("variant", "")
    check_name(variant, runs, f"The run file has no variant {variant!r}.")
    return await execute_runs(display, runs, base_name, options, variant)


async def execute_runs(
    display: Display,
    runs: Mapping[str, RunFile],
    base_name: str,
    options: Mapping[str, object],
    variant: str = "",
    on_start: Callable[[], None] | None = None,
) -> dict[str, RunResult]:
    """Execute the variants of a run file, or one of them, and return the runs by variant.

    If a run fails by itself, the others are executed before its error is raised.

    Args:
        display: Shows the progress.
        runs: The resolved run files by variant.
        base_name: Prefix of the runs' names.
        options: The options ``fresh`` and ``rescore`` of `run`.
        variant: The only variant to execute, or "" for all.
        on_start: Is called before the first run starts. If it is not None, the file may get further
            variants later.
    """
    with set_code_permission("allowed"), Resources(Settings()) as resources:
        selected = {name: run for name, run in runs.items() if variant in ("", name)}
        set_earlier_aside: AbstractContextManager[object] = nullcontext()
        if options.get("fresh"):
            runs_dir = resources.settings.runs_dir
            set_earlier_aside = move_runs_aside(runs_dir, base_name, selected, removed=not variant)
        with set_earlier_aside:
            if options.get("fresh"):
                set_copies_aside(resources.settings, base_name, selected)
            prepare_data(selected, base_name, resources)
            jobs = prepare_all(
                runs,
                base_name,
                resources,
                only_variant=variant,
                rescore=bool(options.get("rescore")),
                extends=on_start is not None,
            )
            warnings = chain.from_iterable(
                ignored_url_warnings(job.models) for job in jobs.values()
            )
            for warning in dict.fromkeys(warnings):
                say(warning, "yellow")
            if on_start is not None:
                on_start()
        with display.set_runs({job.folder.name: name for name, job in jobs.items()}):
            first_error: HarnessError | None = None
            executions = execute_all([*jobs.values()], display.watch, lambda: display.interrupted)
            async for job, _, error in executions:
                if error is not None and first_error is None:
                    first_error = error
                    first_error.message = f"Variant {job.variant.name!r}: {error.message}"
            if display.interrupted:
                raise KeyboardInterrupt
            if first_error:
                raise first_error
    return {name: RunResult(job.folder) for name, job in jobs.items() if job.folder.exists()}


@set_code_permission("allowed")
def _required_variant(file: str | Path | Mapping[str, Any], options: RunOptions) -> str:
    overrides = options.get("overrides", {})
    _, runs = read_runs(file, model=options.get("model", ""), further=overrides)
    variant = options.get("variant", "")
    if not variant and list(runs) != [""]:
        remedy = f"Name a variant, or use run_all, which returns all: {', '.join(runs)}."
        raise ConfigError("The run file has variants.", remedy)
    return variant


def open_run(name: str) -> RunResult:
    """Open an existing run.

    Args:
        name: The run's name, or the path of its folder or run file.

    Raises:
        ConfigError: If the name is invalid.
        DataMissing: If there is no such run.
        RunConflict: If the run differs from the run file.

    Examples:
        >>> import harness
        >>> _ = harness.run("quickstart", limit=13, progress=False)
        >>> harness.open_run("quickstart").metrics.overall.pass_rate
        0.8269230769230769
    """
    return RunResult(find_named_run(name, Settings()))


def checker(function: Callable[..., Any] | None = None, *, version: str = "") -> Callable[..., Any]:
    """Register a function as a checker under its name, and return the function (docs/python.md).

    Args:
        function: The function, or None to return a decorator.
        version: A label for changes that the hash of the function's code does not cover, such as
            the values in a closure. A run is not continued with another version.

    Raises:
        ConfigError: If ``function`` was not made by ``def``, or has the name of a built-in or
            installed checker.

    Examples:
        >>> import harness
        >>> @harness.checker  # doctest: +SKIP
        ... def ends_in_full_stop(text: str) -> bool:
        ...     return text.endswith(".")
        >>> checks = [{"ends_in_full_stop": {}}]  # in a run file: task.checks
    """
    if function is None:
        return partial(checker, version=version)
    register_checker(function, version=version)
    return function


def backend(plugin: P) -> P:
    """Register a class or function as a backend, and return it (docs/plugins.md).

    ``MyBackend`` gets the name ``my``. A function keeps its name.

    Raises:
        ConfigError: If it has no name, or if a built-in or installed backend has this name.
    """
    if not hasattr(plugin, "__name__"):
        problem = f"{plugin!r:.60} has no name under which it could be registered."
        raise ConfigError(problem, "Call it in a function, and register the function.")
    register("backends", _plugin_name(plugin.__name__, "Backend"), plugin)
    return plugin


def task(plugin: P) -> P:
    """Register a class as a task, and return it (docs/plugins.md).

    ``MyTask`` gets the name ``my``.

    Raises:
        ConfigError: If a built-in or installed task has this name.
    """
    register("tasks", _plugin_name(plugin.__name__, "Task"), plugin)
    return plugin


def judge(plugin: P) -> P:
    """Register a class as a judge, and return it (docs/plugins.md).

    ``MyJudge`` gets the name ``my``.

    Raises:
        ConfigError: If a built-in or installed judge has this name.
    """
    register("judges", _plugin_name(plugin.__name__, "Judge"), plugin)
    return plugin


def _plugin_name(name: str, suffix: str) -> str:
    """Convert a class's name without the suffix to snake case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix(suffix) or name).lower()
