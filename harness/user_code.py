"""Support for code that users write: turns functions into checkers, hashes code, loads files."""

import ast
import contextlib
import dis
import functools
import hashlib
import inspect
import re
import sys
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from harness.errors import ConfigError, HarnessError, option
from harness.records import LARGEST, Instance, Score, without_arrays


def checker_of(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a factory of checkers that call a function.

    The checkers raise ConfigError if the function fails or returns a value of the wrong type.

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
            except (Exception, SystemExit) as error:
                problem = _raised(error, name, instance.id, text)
                remedy = "A check must not raise: catch the error and return False or the reason."
                if isinstance(getattr(error, "obj", None), Instance):
                    remedy = 'A field of the row is instance.data.row["NAME"].'
                raise ConfigError(problem, f"{remedy} {rescore_remedy()}") from error
            if (score := _score(found)) is not None:
                return score
            problem = f"The check {name!r} returned {found!r:.60} on instance {instance.id!r:.60}."
            remedy = "Return True or False, a finite number, a string or a Score."
            raise ConfigError(problem, f"{remedy} {rescore_remedy()}")

    def build(**options: Any) -> FunctionChecker:
        return FunctionChecker(**options)

    options = [one for one in own if one.name != "instance"]
    build.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    build.__doc__, build.__name__ = function.__doc__, function.__name__
    build.__wrapped__ = function  # type: ignore[attr-defined]
    return build


def _score(found: Any) -> Score | None:
    """Return the score that a check's return value stands for, or None if it has another type."""
    found = without_arrays(found)
    if isinstance(found, bool):
        return Score(found, found)
    if isinstance(found, str):
        return Score(not found, not found, found)
    if isinstance(found, int) and abs(found) <= LARGEST:
        return Score(float(found))
    if isinstance(found, int | float):
        return Score(found)
    return found if isinstance(found, Score) else None


def rescore_remedy() -> str:
    """Return what a user should do after an error in their own check."""
    return f"No paid reply is lost: fix the check, and run again with {option('rescore')}."


def _raised(error: BaseException, name: str, instance: str, text: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    said = f"The check {name!r} raised {type(error).__name__} on instance {instance!r:.60}"
    return f"{said}: {str(error)[:200]}{place}. The answer begins: {text[:60]!r}."


def source_sha256(plugin: Callable[..., Any]) -> str:
    """Return a hash of a plug-in's source, or else of its bytecode, or "" if it has neither."""
    return _source_sha256(inspect.unwrap(plugin))


def _source_sha256(code: Any) -> str:
    code = getattr(code, "__code__", code)
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):  # defined in a program from standard input, for example
        if not isinstance(code, CodeType):
            return ""
        source = repr(_bytecode(code))
    return hashlib.sha256(source.encode()).hexdigest()


def with_references(digest: str, check: Callable[..., Any]) -> str:
    """Return a hash of a check's hash and of the values and code that the check refers to.

    These are plain values and compiled patterns in globals, closures and defaults, and the source
    of functions, classes and modules in neither the standard library nor an installed package.
    Variables that this code assigns or changes, such as a cache, are left out. If the check refers
    to nothing, the result is ``digest``.
    """
    check = getattr(check, "__wrapped__", check)  # the function in a factory of `checker_of`
    changed: set[int] = set()
    own = isinstance(check, FunctionType | type)
    walked = _references if own else _described
    for _ in range(2):  # the second time, all containers that the code changes are known
        found = "\n".join(walked(check, _Walk({id(check)} if own else set(), changed)))
    return hashlib.sha256(f"{digest}\n{found}".encode()).hexdigest() if found else digest


class _Walk(NamedTuple):
    """The state of a walk over the values that code refers to. Both sets hold ids."""

    seen: set[int]
    changed: set[int]  # containers that the code changes in place


def _references(code: Any, walk: _Walk) -> Iterator[str]:
    """Yield descriptions of the values and code that a function or class refers to."""
    if isinstance(code, type):
        for base in code.__mro__[1:]:
            yield from _described(base, walk)
        for name, member in vars(code).items():
            member = getattr(member, "fget", getattr(member, "__func__", member))
            own = isinstance(member, FunctionType) and is_local(_file(member))
            if own and id(member) not in walk.seen:
                walk.seen.add(id(member))
                yield from (f"{name} {one}" for one in _references(member, walk))
        return
    if hasattr(code, "__wrapped__") and is_local(_file(code)):  # the function of a decorator
        yield _source_sha256(code)
    loaded, attributes = _names(code.__code__)
    cells = dict(zip(code.__code__.co_freevars, code.__closure__ or (), strict=True))
    in_place = _changed_in_place(code)
    for name in sorted(loaded):
        try:
            value = cells[name].cell_contents if name in cells else code.__globals__[name]
        except (KeyError, ValueError):  # a built-in, or not yet assigned
            continue
        if name in in_place:
            walk.changed.add(id(value))
        yield from (f"{name} {one}" for one in _described(value, walk, attributes))
    given = [
        (name, one.default)
        for name, one in inspect.signature(code, follow_wrapped=False).parameters.items()
        if one.default is not one.empty
    ]
    walk.changed.update(id(value) for name, value in given if name in in_place)
    for value in (code.__defaults__, code.__kwdefaults__):
        if value:
            yield from _described(value, walk)


_CHANGING = {"append", "add", "update", "setdefault", "extend", "insert", "appendleft"}
_CHANGING |= {"pop", "popitem", "remove", "discard", "clear", "sort", "reverse"}


def _changed_in_place(code: Any) -> set[str]:
    """Return the names of values that a function changes in place."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code.__code__)))
    except (OSError, TypeError, SyntaxError):  # no source, or a part of an expression
        return set()
    found = set[str]()
    for node in ast.walk(tree):
        target: ast.expr | None = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr in _CHANGING else None
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        if isinstance(target, ast.Name):
            found.add(target.id)
    return found


def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the names of outer variables that code only reads, and of attributes that it reads."""
    loaded, assigned, attributes = set[str](), set[str](), set[str]()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            loaded.add(step.argval)
        elif step.opname in ("STORE_GLOBAL", "STORE_DEREF"):
            assigned.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names, inner_attributes = _names(inner)
            loaded |= names - {*code.co_cellvars}
            attributes |= inner_attributes
    loaded = {name for name in loaded | {*code.co_freevars} if not name.startswith("__")}
    return loaded - assigned, attributes


def _described(
    value: Any, walk: _Walk, attributes: set[str] | frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield texts that describe a value, the same in every process for equal values.

    If the value is a module, ``attributes`` names the attributes to describe.
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value)
    elif isinstance(value, re.Pattern):
        yield repr((value.pattern, value.flags))
    elif isinstance(value, functools.partial):
        yield from _described((value.func, value.args, value.keywords), walk)
    elif isinstance(value, MethodType):
        yield from _described(value.__func__, walk)
    elif isinstance(value, functools._lru_cache_wrapper):
        yield from _described(value.__wrapped__, walk)
    elif id(value) in walk.seen:
        return
    elif isinstance(value, list | tuple | set | frozenset | dict):
        if id(value) in walk.changed:
            return
        walk.seen.add(id(value))
        parts = chain(*value.items()) if isinstance(value, dict) else value
        texts = [" ".join(_described(part, walk)) for part in parts]
        if isinstance(value, set | frozenset):
            texts.sort()
        yield f"{type(value).__name__} {hashlib.sha256(repr(texts).encode()).hexdigest()}"
        walk.seen.discard(id(value))
    elif isinstance(value, ModuleType) and is_local(getattr(value, "__file__", None)):
        walk.seen.add(id(value))
        with contextlib.suppress(OSError):  # in a ZIP file, or deleted
            yield hashlib.sha256(Path(str(value.__file__)).read_bytes()).hexdigest()
        for name in sorted(attributes & vars(value).keys()):
            yield from _described(vars(value)[name], walk, attributes)
    elif isinstance(value, FunctionType | type) and is_local(_file(value)):
        walk.seen.add(id(value))
        yield _source_sha256(value)
        yield from _references(value, walk)


def _file(code: Any) -> str | None:
    if isinstance(code, FunctionType):
        return code.__code__.co_filename
    module = sys.modules.get(code.__module__)
    if module is None or code.__module__ == "__main__":  # of a check's file, or of a notebook
        return str(code.__module__)
    file: str | None = getattr(module, "__file__", None)
    return file


@functools.cache
def is_local(file: str | None) -> bool:
    """Return whether a file is in neither the standard library nor an installed package."""
    if file is None or file.startswith("<frozen"):
        return False
    path = Path(file).absolute()
    libraries = [
        *(Path(sysconfig.get_path(one)) for one in ("stdlib", "platstdlib")),
        Path(__file__).parent,
    ]
    inside = any(path.is_relative_to(one) for one in libraries)
    return not inside and not {"site-packages", "dist-packages"} & {*path.parts}


def _bytecode(value: object) -> object:
    """Return a code object's content, with the same ``repr`` in every process."""
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, [_bytecode(one) for one in value.co_consts]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


class SourceLoader(SourceFileLoader):
    """A loader of Python files that neither reads nor writes bytecode.

    Python considers bytecode current if the file's size and its modification time in whole seconds
    have not changed, so a file edited within the same second could run in its old version.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file, compiled from its source."""
        return self.source_to_code(self.get_data(self.path), self.path)


class _Beside:
    """A finder of the modules in a folder, except those named like the standard library's."""

    def __init__(self, folder: Path) -> None:
        self._finder = FileFinder(str(folder), (SourceLoader, [".py"]))
        self.found: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if path is not None or name in sys.stdlib_module_names:
            return None
        spec = self._finder.find_spec(name)
        if spec is None or spec.loader is None:  # a folder of data, for example
            return None
        self.found.add(name)
        return spec


_beside = functools.cache(_Beside)


def load_file(path: Path) -> tuple[ModuleType, list[Path]]:
    """Execute a Python file, and return its module and the files that it imports from its folder.

    Imported modules do not stay in ``sys.modules``, so that they are read again with the file.
    """
    loader = SourceLoader(path.stem, str(path))
    spec = spec_from_file_location(path.stem, path, loader=loader)
    assert spec is not None
    module, finder, hooks = module_from_spec(spec), _beside(path.absolute().parent), sys.meta_path
    hooks[:] = [finder, *(one for one in hooks if one is not finder)]
    finder.found.clear()
    invalidate_caches()
    try:
        loader.exec_module(module)
    finally:
        hooks[:] = [*(one for one in hooks if one is not finder), finder]  # for later imports
        own = [name for name in sys.modules if name.partition(".")[0] in finder.found]
        files = {getattr(sys.modules.pop(name), "__file__", None) for name in own}
    return module, sorted(Path(file) for file in files if file)
