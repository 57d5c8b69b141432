"""Support for users' code: turns functions into checkers and backends, hashes and loads code."""

import ast
import asyncio
import contextlib
import functools
import hashlib
import inspect
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from importlib import invalidate_caches
from importlib.machinery import FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from typing_extensions import override

from harness.errors import ConfigError, HarnessError, option
from harness.ports import APPLICATION, Backend, Checker
from harness.records import (
    MAX_MAGNITUDE,
    Instance,
    Reply,
    Request,
    Score,
    content_hash,
    unwrap_array,
)


def checker_factory(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a factory of checkers that call a function.

    The checkers raise ConfigError if the function raises an exception or returns a value of another
    type than those below.

    Args:
        function: Takes the text to check and returns True or False, a number, a `Score`, or text
            that says what is wrong (empty if nothing is). If it has a parameter ``instance``, it
            gets the instance. All other parameters are options.
        name: The check's name in messages: the function's, or the path of its file.
    """
    if inspect.iscoroutinefunction(function):
        problem = f"The check {name!r} is an async function."
        raise ConfigError(problem, "Define it with def, not with async def.")
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    options = []
    for parameter in parameters:
        if parameter.name != "instance":
            options.append(parameter.replace(kind=parameter.POSITIONAL_OR_KEYWORD))
    takes_instance = len(options) < len(parameters)

    class FunctionChecker(Checker):
        def __init__(self, **options: Any) -> None:
            self._options = options

        def check(self, text: str, instance: Instance[Any]) -> Score:
            supplied = {"instance": instance} if takes_instance else {}
            call = functools.partial(function, text, **supplied, **self._options)
            return run_check(call, name, text, instance)

    def build(**options: Any) -> FunctionChecker:
        return FunctionChecker(**options)

    build.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    build.__doc__ = function.__doc__
    build.__name__ = function.__name__
    build.__wrapped__ = function  # type: ignore[attr-defined]
    return build


def run_check(check: Callable[[], object], name: str, text: str, instance: Instance[Any]) -> Score:
    """Call a user's check, and convert its return value to a score.

    Args:
        check: Calls the function that `checker_factory` describes.
        name: The check's name, for messages.
        text: The checked text, for messages.
        instance: The instance that the text answers, for messages.

    Raises:
        ConfigError: If the check raises an exception or returns a value of another type.
    """
    try:
        returned = check()
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        problem = _describe_raised(error, name, instance.id, text)
        remedy = "A check must not raise: catch the error and return False or the reason."
        if isinstance(getattr(error, "obj", None), Instance):
            remedy = 'A field of the row is instance.data.row["NAME"].'
        raise ConfigError(problem, f"{remedy} {rescore_remedy()}") from error
    if (score := _score_from_return(returned)) is not None:
        return score
    problem = f"The check {name!r} returned {returned!r:.60} on instance {instance.id!r:.60}."
    remedy = "Return True or False, a finite number, a string or a Score."
    raise ConfigError(problem, f"{remedy} {rescore_remedy()}")


def _score_from_return(returned: Any) -> Score | None:
    """Convert a check's return value to a score, or return None if it has another type."""
    if isinstance(returned, Score):
        return returned
    returned = unwrap_array(returned)
    if isinstance(returned, bool):
        return Score(returned, returned)
    if isinstance(returned, str):
        return Score(not returned, not returned, returned)
    if isinstance(returned, int) and abs(returned) <= MAX_MAGNITUDE:
        return Score(float(returned))
    if isinstance(returned, Decimal) and returned.is_finite() and abs(returned) <= MAX_MAGNITUDE:
        return Score(float(returned))
    if isinstance(returned, int | float):
        return Score(returned)
    return None


def rescore_remedy() -> str:
    """Return the remedy for an error in a user's check."""
    return f"No paid reply is lost: fix the check, and run again with {option('rescore')}."


def _describe_raised(error: BaseException, name: str, instance: str, text: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    location = ""
    for frame in frames:
        if frame.filename == frames[0].filename:
            location = f" ({Path(frame.filename).name}, line {frame.lineno})"
    problem = f"The check {name!r} raised {type(error).__name__} on instance {instance!r:.60}"
    return f"{problem}: {str(error)[:200]}{location}. The answer begins: {text[:60]!r}."


def source_sha256(plugin: Callable[..., Any]) -> str:
    """Return a hash of a plug-in's code, or "" if its source cannot be read.

    It covers the source of the class or function and, if a local module other than ``__main__``
    defines it, the `local_files` of that module.
    """
    plugin = inspect.unwrap(plugin)
    source = ""
    with contextlib.suppress(OSError, TypeError):  # defined in a program from standard input
        source = inspect.getsource(plugin)
    file = getattr(sys.modules.get(plugin.__module__), "__file__", None)
    if plugin.__module__ != "__main__" and is_local(file):
        source += files_sha256(local_files(Path(str(file))))
    return hashlib.sha256(source.encode()).hexdigest() if source else ""


def files_sha256(files: Sequence[Path]) -> str:
    """Return a hash of files' contents, or "" if there are no files."""
    hashes = [hashlib.sha256(file.read_bytes()).digest() for file in files]
    return hashlib.sha256(b"".join(hashes)).hexdigest() if files else ""


def local_files(path: Path) -> list[Path]:
    """Return a Python file, and those of the local modules that it imports, directly or not.

    Nothing is executed. Modules are searched for in the file's folder and in ``sys.path``.
    """
    path = path.absolute()
    folders = [str(path.parent), *sys.path]
    files = [path]
    for file in files:  # the list grows in the loop
        for imported_file in _imported_files(file, folders):
            if imported_file not in files:
                files.append(imported_file)
    return [path, *sorted(files[1:])]


def _imported_files(file: Path, folders: Sequence[str]) -> Iterator[Path]:
    """Yield the files of the local modules that a file imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # compiled, for example
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_files(alias.name, folders)
        elif isinstance(node, ast.ImportFrom):
            search_path = [str(file.parents[node.level - 1])] if node.level else folders
            for alias in node.names:  # a submodule, or a name that the module defines
                name = f"{node.module}.{alias.name}" if node.module else alias.name
                yield from _module_files(name, search_path)


def _module_files(name: str, folders: Sequence[str]) -> Iterator[Path]:
    """Yield the files of a module and of the packages that contain it, if they are local."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return
    for module_name in name.split("."):
        spec = PathFinder.find_spec(module_name, folders)
        if spec is None:
            return
        if is_local(spec.origin):
            yield Path(str(spec.origin))
        folders = spec.submodule_search_locations or []


@functools.cache
def is_local(file: str | None) -> bool:
    """Return whether a file is in neither the standard library nor an installed package."""
    if file is None or file.startswith("<frozen"):
        return False
    path = Path(file).absolute()
    if {"site-packages", "dist-packages"} & {*path.parts}:
        return False
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    folders = (*libraries, Path(__file__).parent)
    return not any(path.is_relative_to(folder) for folder in folders)


class SourceLoader(SourceFileLoader):
    """A loader of Python files that neither reads nor writes bytecode.

    Python uses cached bytecode if the file's size and its modification time in whole seconds have
    not changed, so an edit within the same second could have no effect.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file, compiled from its source."""
        return self.source_to_code(self.get_data(self.path), self.path)


class _FolderFinder:
    """A finder of modules in a folder, except those with names of the standard library."""

    def __init__(self, folder: Path) -> None:
        self._finder = FileFinder(str(folder), (SourceLoader, [".py"]))
        self.names: set[str] = set()  # of the modules found

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if path is not None or name in sys.stdlib_module_names:
            return None
        spec = self._finder.find_spec(name)
        if spec is None or spec.loader is None:  # a folder of data, for example
            return None
        self.names.add(name)
        return spec


_folder_finder = functools.cache(_FolderFinder)


def load_file(path: Path) -> ModuleType:
    """Execute a Python file, and return its module.

    Modules that it imports from its folder are removed from ``sys.modules``, so that they are
    reloaded with the file.
    """
    loader = SourceLoader(path.stem, str(path))
    spec = spec_from_file_location(path.stem, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    finder = _folder_finder(path.absolute().parent)
    finders = sys.meta_path
    finders[:] = [finder, *(other for other in finders if other is not finder)]
    finder.names.clear()
    invalidate_caches()
    try:
        loader.exec_module(module)
    finally:
        # At the end, for later imports.
        finders[:] = [*(other for other in finders if other is not finder), finder]
        for name in [*sys.modules]:
            if name.partition(".")[0] in finder.names:
                del sys.modules[name]
    return module


OPTION_TYPES = (str, int, float, list, tuple, dict, Path)  # types of options in a run file
_CallResult: TypeAlias = tuple[Any, Exception | None]  # the returned value, or the exception


def backend_factory(
    function: Callable[..., Any], sha256: str, file: str = ""
) -> Callable[..., Any]:
    """Return a factory of backends that answer by calling a function.

    Args:
        function: Takes the prompt (the texts of all messages) and returns the answer, a text or a
            `Reply`. If its first parameter is named ``messages``, it gets the messages instead, as
            dicts with ``role`` and ``content``. A parameter named ``max_tokens`` gets the limit of
            an answer's length, if one is set. Its other parameters are those of a plug-in. If it is
            not async, each call has its own thread.
        sha256: The hash of the function's code, which is part of the cache key of replies. With "",
            replies are not cached.
        file: The name of the plug-in's file that contains the function, or "".

    Raises:
        ConfigError: If the function has no parameter for the prompt.
    """
    name = getattr(function, "__name__", "plugin")
    display_name = f"{file}'s {name}" if file else name
    signature = _read_signature(function, name, display_name)

    class FunctionBackend(Backend):
        # Estimates and budgets also use a limit that the function does not take.
        features = signature.features | {"max_tokens", APPLICATION}
        endpoint = ""
        cacheable = bool(sha256)
        function_name = display_name

        def __init__(self, **arguments: Any) -> None:
            self._arguments = arguments
            options = {}
            for key, value in arguments.items():
                if isinstance(value, OPTION_TYPES):
                    options[key] = str(value) if isinstance(value, Path) else value
            self._key = content_hash([sha256, options]) if options else sha256

        @override
        def key_part(self, request: Request) -> str:
            return self._key

        async def generate(self, request: Request) -> Any:
            messages = [{"role": m.role, "content": m.content} for m in request.messages]
            text = "\n\n".join(message["content"] for message in messages)
            prompt = messages if signature.takes_messages else text
            arguments = self._arguments
            max_tokens = request.decoding.max_tokens
            if "max_tokens" in signature.features and max_tokens is not None:
                arguments = {**arguments, "max_tokens": max_tokens}
            call = functools.partial(function, prompt, **arguments)
            answer = await _call_function(call, function)
            return Reply(answer, "stop") if isinstance(answer, str) else answer

    def build(**arguments: Any) -> FunctionBackend:
        return FunctionBackend(**arguments)

    build.features = signature.features  # type: ignore[attr-defined]
    build.__signature__ = inspect.Signature(signature.options)  # type: ignore[attr-defined]
    build.__doc__ = function.__doc__
    build.__name__ = name
    build.__wrapped__ = function  # type: ignore[attr-defined]
    return build


class _BackendSignature(NamedTuple):
    options: list[inspect.Parameter]  # the parameters of the plug-in
    takes_messages: bool  # whether the prompt is passed as messages, not as text
    features: frozenset[str]


def _read_signature(
    function: Callable[..., Any], name: str, display_name: str
) -> _BackendSignature:
    parameters = dict(inspect.signature(function, eval_str=True).parameters)
    prompt = next(iter(parameters.values()), None)
    if prompt is None or prompt.kind in (prompt.KEYWORD_ONLY, prompt.VAR_KEYWORD):
        problem = "The first parameter of a backend's function is the prompt: "
        problem += f"{display_name} has none."
        raise ConfigError(problem, f"Define it as def {name}(prompt).")
    del parameters[prompt.name]
    takes_messages = prompt.name == "messages"
    features = {"conversation"} if takes_messages else set[str]()
    max_tokens = parameters.pop("max_tokens", None)
    if max_tokens is not None:
        features.add("max_tokens")
        if max_tokens.default is max_tokens.empty:
            features.add("max_tokens_required")
    return _BackendSignature([*parameters.values()], takes_messages, frozenset(features))


async def _call_function(call: Callable[[], Any], function: Callable[..., Any]) -> Any:
    """Make a call of a function, in its own thread unless the function is async."""
    if inspect.iscoroutinefunction(function):
        return await call()
    answer, error = await _call_in_thread(call)
    if error is not None:
        raise error
    if inspect.isawaitable(answer):  # of an object whose __call__ is async
        answer = await answer
    return answer


async def _call_in_thread(call: Callable[[], Any]) -> _CallResult:
    """Make a call in a daemon thread, which does not keep Python from exiting if it hangs."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_CallResult] = loop.create_future()

    def settle(result: _CallResult) -> None:
        if not future.done():  # it was cancelled if the call has taken too long
            future.set_result(result)

    def run() -> None:
        result: _CallResult
        try:
            result = (call(), None)
        except Exception as error:
            result = (None, error)
        except BaseException as error:  # such as sys.exit(), which would end the whole run
            same_name = type(type(error).__name__, (RuntimeError,), {})
            result = (None, same_name(str(error)).with_traceback(error.__traceback__))
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, daemon=True).start()
    return await future
