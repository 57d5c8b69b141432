"""Finds, checks and builds plug-ins by their names in run files.

A plug-in is declared (`Plugin`) in a module that an entry point of the group ``harness`` names, or
built in (`harness.declarations.CORE`). A running program can register a plug-in (`register`), and a
run file can name the path of a Python file: ``./my_check.py``.

The plug-in is a callable. Its positional parameters are options in run files, validated against
their annotations. Its keyword-only parameters are supplied by the harness (`SUPPLIED`).
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import harness
from harness.declarations import (
    CORE,
    DISTRIBUTION,
    GROUP,
    PluginMember,
    declarations,
    declared_members,
    described,
    kind_title,
)
from harness.errors import ConfigError, ExtraMissing, nearest
from harness.execution import check_execution
from harness.plugin_interface import calling, options_model, parameters, problems
from harness.ports import BASES, PARAMETERS
from harness.user_code import (
    backend_of,
    checker_of,
    files_sha256,
    load_file,
    local_files,
    source_sha256,
)

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

SECTION_KEYS: Mapping[str, tuple[str, ...]] = {
    "backends": ("backend", "name"),
    "tasks": ("name", "shots"),
    "judges": ("name", "as", "model", "limits"),
    "measures": (),
}
"""For each kind, the keys of its run-file section that are not options (default: ``name``)."""

SUPPLIED: Mapping[str, tuple[str, ...]] = {
    "tasks": ("data", "judges", "panels"),
    "backends": (
        *("secret", "read", "gold", "wrong", "reply", "model", "concurrency", "timeout_s"),
        *("reply_mb", "on_allowances", "prompt_cut", "servers", "logs"),
    ),
    "judges": ("task", "model", "features", "answers"),
    "loaders": ("data",),
    "filters": ("units",),
    "post_processors": ("units",),
    "observers": ("content",),
}
"""For each kind, the keyword-only parameters that the harness supplies (docs/plugins.md).

Built-in backends may also have ``cache_dir``, the folder of caches.
"""

CODE = "code/"  # the start of the name of a hash of a user's code in a fingerprint

FILE = ".py"  # the suffix of a plug-in's name if the name is the path of a Python file

_registered: dict[tuple[str, str], Callable[..., Any]] = {}  # by kind and name
_hashes: dict[tuple[str, str], str] = {}  # of the source when registered, by kind and name


def _removed() -> dict[str, tuple[object, ...]]:
    removed = dict(CORE.removed_options)
    for declaration in declarations():
        removed |= declaration.plugin.removed_options
    return removed


def without_removed(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a saved run file without removed options that changed no verdict."""
    name = section.get("name")
    removed = _removed()
    return {
        key: value
        for key, value in section.items()
        if value not in removed.get(f"{name}.{key}", ())
    }


def register(kind_name: str, name: str, plugin: Callable[..., Any], version: str = "") -> None:
    """Register a plug-in, replacing any that this process has registered under the same name.

    Args:
        kind_name: The plug-in's kind, such as ``tasks``.
        name: Its name in run files.
        plugin: Its class or factory.
        version: Stands for what the hash of its source does not cover (`source_sha256`).

    Raises:
        ConfigError: If a built-in plug-in, or a different installed one, has this name.
    """
    installed = [
        f"{member.module}:{member.attribute}" for member in kind(kind_name)._declared(name)
    ]
    source = inspect.unwrap(plugin)
    if f"{source.__module__}:{source.__qualname__}" in installed:
        return  # it is the entry point's
    if name in kind(kind_name).names() and (kind_name, name) not in _registered:
        problem = f"There already is a {kind(kind_name).title} named {name!r}."
        raise ConfigError(problem, "Give yours another name.")
    digest = source_sha256(plugin)
    if version:
        digest = hashlib.sha256(f"{digest} {version}".encode()).hexdigest()
    if kind_name == "backends" and inspect.isfunction(plugin):
        plugin = _function_backend(plugin, digest, name)
    _registered[kind_name, name] = plugin
    _hashes[kind_name, name] = digest


class _FromFile(NamedTuple):
    plugin: Callable[..., Any]
    changed_ns: Mapping[Path, int]  # when each of its `local_files` was last changed

    def is_current(self) -> bool:
        """Return whether no file has changed since."""
        return all(_changed_ns(file) == ns for file, ns in self.changed_ns.items())


_loaded: dict[tuple[str, Path], _FromFile] = {}  # by kind and path


def _from_file(kind_name: str, name: str) -> _FromFile:
    """Return the plug-in in a Python file: its ``plugin``, or else its only public definition."""
    check_execution(name)
    title = Kind(kind_name).title
    path = Path(name)
    key = kind_name, path.absolute()
    loaded = _loaded.get(key)
    if loaded is not None and loaded.is_current():
        return loaded
    with calling(f"The {title} {name!r}"):
        module = load_file(path)
    plugin: Callable[..., Any] = getattr(module, "plugin", None) or _only_definition(
        module, title, name
    )
    files = local_files(path)
    if kind_name == "checkers" and inspect.isfunction(plugin):
        plugin = checker_of(plugin, name)
    # An object with __call__ or a partial answers as a function does, unless it makes an object.
    if kind_name == "backends" and not isinstance(getattr(plugin, "func", plugin), type):
        plugin = _function_backend(plugin, files_sha256(files), name)
    _loaded[key] = _FromFile(plugin, {file: _changed_ns(file) for file in files})
    return _loaded[key]


def _only_definition(module: ModuleType, title: str, file: str) -> Callable[..., Any]:
    """Return the only public function or class that the module of a file defines."""
    public: dict[str, Callable[..., Any]] = {}
    for name, value in vars(module).items():
        if callable(value) and not name.startswith("_"):
            public[name] = value
    defined = [name for name, value in public.items() if _module_of(value) == module.__name__]
    if len(defined) == 1:
        return public[defined[0]]
    problem = f"{file} defines {len(defined)} public functions and classes, not one."
    imported = [name for name, value in public.items() if inspect.isfunction(value)]
    example = (defined or imported or ["MyClass"])[-1]
    remedy = f"Name the {title} in the file: plugin = {example}."
    if defined:
        remedy += " Or begin the names of helpers with '_'."
    raise ConfigError(problem, remedy)


def _module_of(value: object) -> str:
    return str(getattr(value, "__module__", ""))


def _function_backend(function: Callable[..., Any], digest: str, name: str) -> Callable[..., Any]:
    with calling(f"The backend {name!r}"):
        file = Path(name).name if name.endswith(FILE) else ""
        return backend_of(function, digest, file)


def _changed_ns(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


@dataclass(frozen=True, slots=True)
class Kind:
    """All plug-ins of one kind: a key of `BASES`, such as ``tasks``, or ``figures``."""

    name: str

    @property
    def title(self) -> str:
        """The kind in the singular, for messages ("post-processor")."""
        return kind_title(self.name)

    def _declared(self, name: str) -> list[PluginMember]:
        """Return the members of this name in all declarations."""
        members = declared_members(self.name)
        family, colon, entry = name.partition(":")
        if colon:
            return [member._replace(entry=entry) for member in members.get(f"{family}:*", ())]
        return members.get(name, [])

    def names(self) -> list[str]:
        """Return the sorted names of this kind's plug-ins."""
        names = {*self.registered()}
        for name, members in declared_members(self.name).items():
            family, is_family, _ = name.partition("*")
            if is_family:
                names.update(f"{family}{entry}" for entry in members[0].table())
            else:
                names.add(name)
        return sorted(names)

    def load(self, name: str) -> Callable[..., Any]:
        """Return the class or factory of a plug-in.

        Raises:
            ConfigError: If there is no such plug-in, or it cannot be loaded.
            ExecutionRefused: If it is in a Python file, and the command only reads runs.
        """
        if (self.name, name) in _registered:
            return _registered[self.name, name]
        if name.endswith(FILE):
            if not Path(name).is_file():
                problem = f"There is no file {name!r} with a {self.title}."
                raise ConfigError(problem, "Check the path.")
            return _from_file(self.name, name).plugin
        return self._load_declared(name)

    def _load_declared(self, name: str) -> Callable[..., Any]:
        members = self._declared(name)
        if not members:
            remedy = _broken(self.name, name) or nearest(name, self.names())
            if self.name == "run_steps":  # its name is not the user's
                remedy = _broken(self.name, name) or "Install a plug-in that brings it."
            raise self._unknown(name, remedy)
        packages = " and ".join(sorted(member.package for member in members))
        if len({(member.module, member.attribute) for member in members}) > 1:
            problem = f"There are two plug-ins for the {self.title} {name!r}: from {packages}."
            raise ConfigError(problem, "Uninstall one.")
        try:
            plugin = members[0].load()
        except KeyError:
            family = name.partition(":")[0]
            names = [candidate for candidate in self.names() if candidate.startswith(family)]
            raise self._unknown(name, nearest(name, names)) from None
        except ExtraMissing:
            raise
        except Exception as error:  # a third party's module may raise anything on import
            problem = f"The {self.title} {name!r} from {packages} cannot be loaded"
            problem += f" ({described(error)})."
            raise ConfigError(problem, "Fix or uninstall that package.") from error
        if members[0].entry or self.name != "checkers" or not inspect.isfunction(plugin):
            return plugin
        return checker_of(plugin, name)

    def _unknown(self, name: str, remedy: str) -> ConfigError:
        return ConfigError(f"There is no {self.title} named {name!r}.", remedy)

    def origin(self, name: str) -> dict[str, str]:
        """Return a plug-in's ``package`` (or file), ``version``, and the ``sha256`` of its code.

        An unknown value is "".
        """
        plugin = self.load(name)
        if (self.name, name) in _registered:
            return {"package": "", "version": "", "sha256": _hashes[self.name, name]}
        if name.endswith(FILE):
            return {"package": name, "version": "", "sha256": files_sha256(self.files(name))}
        member = self._declared(name)[0]
        if member.package != DISTRIBUTION:
            digest = files_sha256(_code(member.module))
            return {"package": member.package, "version": member.version, "sha256": digest}
        digest = files_sha256([Path(inspect.getfile(plugin))])
        return {"package": "harness", "version": harness.__version__, "sha256": digest}

    def files(self, name: str) -> list[Path]:
        """Return the files of a plug-in that is named by its path, or else []."""
        registered = (self.name, name) in _registered or not name.endswith(FILE)
        return [] if registered else [*_from_file(self.name, name).changed_ns]

    def own_sha256(self, name: str) -> str:
        """Return a hash of a plug-in that is registered or in a Python file ("" for any other)."""
        return self.origin(name)["sha256"] if self.is_own_code(name) else ""

    def is_own_code(self, name: str) -> bool:
        """Return whether a plug-in is the user's own: registered, or in a Python file."""
        return name.endswith(FILE) or (self.name, name) in _registered

    def is_registered(self, name: str, function: Callable[..., Any]) -> bool:
        """Return whether this process has registered this very function under the name."""
        plugin = _registered.get((self.name, name))
        return getattr(plugin, "__wrapped__", plugin) is function

    def registered(self) -> list[str]:
        """Return the names of the plug-ins that this process has registered."""
        return [name for kind_name, name in _registered if kind_name == self.name]

    def options(self, name: str, options: Mapping[str, Any]) -> BaseModel:
        """Validate a plug-in's options in a run file, and return them with defaults filled in.

        Raises:
            ConfigError: If an option is unknown, missing or invalid, or if `load` raises it.
        """
        from pydantic import ValidationError

        plugin = self.load(name)
        option_names = parameters(plugin, given=False).keys()
        for key in options:
            if key not in option_names:
                raise self._unknown_option(name, key, option_names)
        try:
            return options_model(plugin)(**options)
        except ValidationError as error:
            raise self._invalid_option(name, error.errors()[0]) from None

    def _unknown_option(self, name: str, key: str, option_names: Collection[str]) -> ConfigError:
        remedy = nearest(key, {*option_names, *SECTION_KEYS.get(self.name, ("name",))})
        if self.name == "backends" and key in PARAMETERS:
            right_key = key if key == "seed" else f"decoding.{key}"
            remedy = f"Did you mean {right_key!r}? It is not a key of the model."
        if self.name == "tasks" and key == "feedback":
            remedy = "Write rounds.feedback, which words the feedback of any task."
        if f"{name}.{key}" in _removed():
            remedy = "It is gone: remove it (CHANGELOG.md)."
        return ConfigError(f"The {self.title} {name!r} has no option {key!r}.", remedy)

    def _invalid_option(self, name: str, error: ErrorDetails) -> ConfigError:
        kind = error["type"]
        # Pydantic also names the types of a union, as in target.str.
        first, *location = map(str, error["loc"])
        option = ".".join([first, *(part for part in location if not _TYPE.fullmatch(part))])
        reason = error["msg"].removeprefix("Value error, ")
        remedy = ""
        if kind == "string_type":
            reason = "must be text: put it in quotes"
            if isinstance(error["input"], dict):
                value = f"{next(iter(error['input']), '')}: …"
                section = {"tasks": "task.", "backends": "model."}.get(self.name, "")
                remedy = f"Within the shell's quotes, too: -o '{section}{option}=\"{value}\"'."
        problem = f"Option {option!r} of the {self.title} {name!r}: "
        problem += f"{reason[:1].lower()}{reason[1:]}."
        if option in SUPPLIED.get(self.name, ()):
            remedy = "The harness supplies a parameter of this name only if it is keyword-only."
        elif kind == "missing":
            problem = f"The {self.title} {name!r} needs the option {option!r}."
            if self.name == "checkers":
                remedy = f"For a field of the row: {{{name}: {{{option}: {{field: NAME}}}}}}."
            if self.name == "backends":
                remedy = f"In a run file: model.{option}. On the command line: -o model.{option}=…"
        return ConfigError(problem, remedy)

    def build(self, name: str, options: Mapping[str, Any], **objects: Any) -> Any:
        """Build a plug-in from its options.

        The plug-in gets those of the ``objects`` for which it has parameters.

        Raises:
            ConfigError: If an option is invalid, or the plug-in fails or does not fit its
                interface.
            HarnessError: If the plug-in raises one.
        """
        validated = self.options(name, options)
        where = f"The {self.title} {name!r}"
        plugin = self.load(name)
        supplied = parameters(plugin, given=True)
        suppliable = {*SUPPLIED.get(self.name, {}), *objects}
        for key, parameter in supplied.items():
            if parameter.default is parameter.empty and key not in suppliable:
                problem = f"{where} has a keyword-only parameter {key!r}, which the harness does"
                remedy = f"{nearest(key, suppliable)} An option must be a positional parameter."
                raise ConfigError(f"{problem} not supply.", remedy.strip())
        if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
            faults = [f"It has no {' and no '.join(map(repr, missing))}."]
        else:
            arguments = {key: objects[key] for key in supplied if key in objects}
            with calling(where):
                built = plugin(**dict(validated), **arguments)
            faults = problems(self.name, built)
        if faults:
            remedy = "'harness docs plugins' lists all members, and says how to move a plug-in."
            raise ConfigError(f"{where} does not fit its interface. {faults[0]}", remedy)
        return built


_TYPE = re.compile(r"str|int|float|bool|dict|(list|tuple|dict)\[.*\]")  # in an error's location


def _broken(kind_name: str, name: str) -> str:
    """Return what to do if an installed package may declare a name in a way that is not read."""
    if not any(declaration.package == DISTRIBUTION for declaration in declarations()):
        return (
            "The harness was installed before its benchmarks became plug-ins: install it again "
            "(in a checkout: pip install -e . or uv sync)."
        )
    for declaration in declarations():
        if declaration.problem:
            return declaration.fault
    for entry in entry_points(group=f"harness.{kind_name}", name=name):
        package = entry.dist.name if entry.dist else entry.value
        return (
            f"The package {package} declares it as plug-ins for version 0.1 did: declare it in "
            f"the group {GROUP} (harness docs plugins)."
        )
    return ""


def _code(module: str) -> list[Path]:
    """Return the files whose content is hashed as a module's code."""
    for name in (module.partition(".")[0], module):
        file = getattr(sys.modules.get(name), "__file__", None)  # namespace packages have none
        if file:
            path = Path(file)
            return sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return []


def external() -> list[str]:
    """Return the loaded third-party plug-ins in the form "task 'NAME' (PACKAGE)"."""
    loaded = set()
    for declaration in declarations():
        if declaration.package != DISTRIBUTION:
            for member in declaration.members():
                if member.module in sys.modules:
                    loaded.add(f"{member.title} ({member.package})")
    return sorted(loaded)


def kind(name: str) -> Kind:
    """Return a kind of plug-in by its name, such as ``tasks``.

    Raises:
        ValueError: If the name is not in `BASES`.
    """
    if name not in BASES:
        raise ValueError(f"no such kind of plug-in: {name}")
    return Kind(name)
