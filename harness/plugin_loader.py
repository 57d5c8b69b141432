"""Finds, checks and builds plug-ins by their names in run files.

A plug-in is declared (`Plugin`) in a module that an entry point of the group ``harness`` names, or
built in (`harness.declarations.CORE`). A running program can register a plug-in (`register`), and a
run file can name the path of a Python file: ``./my_check.py``.

The plug-in is a callable. Its positional parameters are options in run files, validated against
their annotations. Its keyword-only parameters are supplied by the harness (`SUPPLIED_PARAMETERS`).
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
from inspect import Parameter
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
    describe_exception,
    kind_title,
)
from harness.errors import ConfigError, ExtraMissing, suggest_name
from harness.execution import check_execution
from harness.plugin_interface import (
    interface_problems,
    option_parameters,
    options_model,
    supplied_parameters,
    wrap_errors,
)
from harness.ports import BASE_CLASSES, DECODING_PARAMETERS
from harness.user_code import (
    backend_factory,
    checker_factory,
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

SUPPLIED_PARAMETERS: Mapping[str, tuple[str, ...]] = {
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

CODE_HASH_PREFIX = "code/"  # starts the names of hashes of users' code in fingerprints

PYTHON_SUFFIX = ".py"  # ends the names of plug-ins that are paths of Python files

_registered: dict[tuple[str, str], Callable[..., Any]] = {}  # by kind and name
_registered_hashes: dict[
    tuple[str, str], str
] = {}  # of the source when registered, by kind and name


def _removed_options() -> dict[str, tuple[object, ...]]:
    """Return all `Plugin.removed_options`."""
    removed = dict(CORE.removed_options)
    for declaration in declarations():
        removed |= declaration.plugin.removed_options
    return removed


def drop_removed_options(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section of a saved run file without removed options that changed no verdict."""
    name = section.get("name")
    removed = _removed_options()
    remaining: dict[str, Any] = {}
    for key, value in section.items():
        if value not in removed.get(f"{name}.{key}", ()):
            remaining[key] = value
    return remaining


def register(kind_name: str, name: str, plugin: Callable[..., Any], version: str = "") -> None:
    """Register a plug-in, replacing any that this process has registered under the same name.

    Args:
        kind_name: The plug-in's kind, such as ``tasks``.
        name: Its name in run files.
        plugin: Its class or factory.
        version: A label that is hashed with its source (`source_sha256`), for changes elsewhere.

    Raises:
        ConfigError: If a built-in plug-in, or a different installed one, has this name.
    """
    source = inspect.unwrap(plugin)
    for member in kind(kind_name)._declared_members(name):
        if (member.module, member.attribute) == (source.__module__, source.__qualname__):
            return  # it is already installed under this name
    if name in kind(kind_name).names() and (kind_name, name) not in _registered:
        problem = f"There already is a {kind(kind_name).title} named {name!r}."
        raise ConfigError(problem, "Give yours another name.")
    sha256 = source_sha256(plugin)
    if version:
        sha256 = hashlib.sha256(f"{sha256} {version}".encode()).hexdigest()
    if kind_name == "backends" and inspect.isfunction(plugin):
        plugin = _function_backend(plugin, sha256, name)
    _registered[kind_name, name] = plugin
    _registered_hashes[kind_name, name] = sha256


class _FilePlugin(NamedTuple):
    plugin: Callable[..., Any]
    mtimes_ns: Mapping[Path, int]  # modification times of its `local_files`

    def is_current(self) -> bool:
        """Return whether none of the files has changed since it was loaded."""
        return all(_mtime_ns(file) == ns for file, ns in self.mtimes_ns.items())


_file_plugins: dict[tuple[str, Path], _FilePlugin] = {}  # by kind and path


def _load_from_file(kind_name: str, name: str) -> _FilePlugin:
    """Load a plug-in from a Python file: its ``plugin``, or else its only public definition.

    Args:
        kind_name: The plug-in's kind, such as ``tasks``.
        name: The path of the file.
    """
    check_execution(name)
    title = Kind(kind_name).title
    path = Path(name)
    cache_key = kind_name, path.absolute()
    cached = _file_plugins.get(cache_key)
    if cached is not None and cached.is_current():
        return cached
    with wrap_errors(f"The {title} {name!r}"):
        module = load_file(path)
    plugin: Callable[..., Any] | None = getattr(module, "plugin", None)
    if plugin is None:
        plugin = _only_definition(module, title, name)
    files = local_files(path)
    if kind_name == "checkers" and inspect.isfunction(plugin):
        plugin = checker_factory(plugin, name)
    # An object with __call__ or a partial answers as a function does, unless it makes an object.
    if kind_name == "backends" and not isinstance(getattr(plugin, "func", plugin), type):
        plugin = _function_backend(plugin, files_sha256(files), name)
    _file_plugins[cache_key] = _FilePlugin(plugin, {file: _mtime_ns(file) for file in files})
    return _file_plugins[cache_key]


def _only_definition(module: ModuleType, title: str, path: str) -> Callable[..., Any]:
    """Return the only public function or class that a module defines.

    Args:
        module: The module of a plug-in's file.
        title: The plug-in's kind in the singular, for messages.
        path: The path of the file, for messages.
    """
    public: dict[str, Callable[..., Any]] = {}
    for name, value in vars(module).items():
        if callable(value) and not name.startswith("_"):
            public[name] = value
    defined_here: list[str] = []
    for name, value in public.items():
        if getattr(value, "__module__", "") == module.__name__:
            defined_here.append(name)
    if len(defined_here) == 1:
        return public[defined_here[0]]
    problem = f"{path} defines {len(defined_here)} public functions and classes, not one."
    functions = [name for name, value in public.items() if inspect.isfunction(value)]
    example = (defined_here or functions or ["MyClass"])[-1]
    remedy = f"Name the {title} in the file: plugin = {example}."
    if defined_here:
        remedy += " Or begin the names of helpers with '_'."
    raise ConfigError(problem, remedy)


def _function_backend(function: Callable[..., Any], sha256: str, name: str) -> Callable[..., Any]:
    with wrap_errors(f"The backend {name!r}"):
        file = Path(name).name if name.endswith(PYTHON_SUFFIX) else ""
        return backend_factory(function, sha256, file)


def _mtime_ns(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


@dataclass(frozen=True, slots=True)
class Kind:
    """All plug-ins of one kind."""

    name: str  # a key of `BASE_CLASSES`, such as "tasks", or another field of `Plugin`

    @property
    def title(self) -> str:
        """The kind in the singular, for messages ("post-processor")."""
        return kind_title(self.name)

    def _declared_members(self, name: str) -> list[PluginMember]:
        """Return the members with a name in run files, such as ``json`` or ``FAMILY:ENTRY``."""
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
        """Return the class or factory of a plug-in, given its name in run files.

        Raises:
            ConfigError: If there is no such plug-in, or it cannot be loaded.
            ExecutionRefused: If it is in a Python file, and the command only reads runs.
        """
        if (self.name, name) in _registered:
            return _registered[self.name, name]
        if name.endswith(PYTHON_SUFFIX):
            if not Path(name).is_file():
                problem = f"There is no file {name!r} with a {self.title}."
                raise ConfigError(problem, "Check the path.")
            return _load_from_file(self.name, name).plugin
        return self._load_declared(name)

    def _load_declared(self, name: str) -> Callable[..., Any]:
        members = self._declared_members(name)
        if not members:
            remedy = _declaration_remedy(self.name, name) or suggest_name(name, self.names())
            if self.name == "run_steps":  # its name is not the user's
                remedy = _declaration_remedy(self.name, name) or "Install a plug-in that brings it."
            raise self._unknown_name_error(name, remedy)
        packages = " and ".join(sorted(member.package for member in members))
        if len({(member.module, member.attribute) for member in members}) > 1:
            problem = f"There are two plug-ins for the {self.title} {name!r}: from {packages}."
            raise ConfigError(problem, "Uninstall one.")
        try:
            plugin = members[0].load()
        except KeyError:
            family = name.partition(":")[0]
            names = [candidate for candidate in self.names() if candidate.startswith(family)]
            raise self._unknown_name_error(name, suggest_name(name, names)) from None
        except ExtraMissing:
            raise
        except Exception as error:  # a third party's module may raise anything on import
            problem = f"The {self.title} {name!r} from {packages} cannot be loaded"
            problem += f" ({describe_exception(error)})."
            raise ConfigError(problem, "Fix or uninstall that package.") from error
        if members[0].entry or self.name != "checkers" or not inspect.isfunction(plugin):
            return plugin
        return checker_factory(plugin, name)

    def _unknown_name_error(self, name: str, remedy: str) -> ConfigError:
        return ConfigError(f"There is no {self.title} named {name!r}.", remedy)

    def origin(self, name: str) -> dict[str, str]:
        """Return the source of a plug-in: its ``package``, ``version`` and ``sha256``.

        For a Python file, ``package`` is its path. An unknown value is "".
        """
        plugin = self.load(name)
        if (self.name, name) in _registered:
            return {"package": "", "version": "", "sha256": _registered_hashes[self.name, name]}
        if name.endswith(PYTHON_SUFFIX):
            return {"package": name, "version": "", "sha256": files_sha256(self.files(name))}
        member = self._declared_members(name)[0]
        if member.package != DISTRIBUTION:
            digest = files_sha256(_hashed_files(member.module))
            return {"package": member.package, "version": member.version, "sha256": digest}
        digest = files_sha256([Path(inspect.getfile(plugin))])
        return {"package": "harness", "version": harness.__version__, "sha256": digest}

    def files(self, name: str) -> list[Path]:
        """Return the local files of a plug-in in a Python file, or [] for any other plug-in."""
        if (self.name, name) in _registered or not name.endswith(PYTHON_SUFFIX):
            return []
        return [*_load_from_file(self.name, name).mtimes_ns]

    def user_code_sha256(self, name: str) -> str:
        """Return a hash of a plug-in's code if it is the user's (`is_user_code`), or else ""."""
        return self.origin(name)["sha256"] if self.is_user_code(name) else ""

    def is_user_code(self, name: str) -> bool:
        """Return whether a plug-in is registered by this process, or in a Python file."""
        return name.endswith(PYTHON_SUFFIX) or (self.name, name) in _registered

    def is_registered(self, name: str, function: Callable[..., Any]) -> bool:
        """Return whether this process has registered the given function under a name."""
        plugin = _registered.get((self.name, name))
        return getattr(plugin, "__wrapped__", plugin) is function

    def registered(self) -> list[str]:
        """Return the names of the plug-ins that this process has registered."""
        return [name for kind_name, name in _registered if kind_name == self.name]

    def validate_options(self, name: str, options: Mapping[str, Any]) -> BaseModel:
        """Validate a plug-in's options in a run file, and return them with defaults filled in.

        Raises:
            ConfigError: If an option is unknown, missing or invalid, or if `load` raises it.
        """
        from pydantic import ValidationError

        plugin = self.load(name)
        valid_keys = option_parameters(plugin).keys()
        for key in options:
            if key not in valid_keys:
                raise self._unknown_option_error(name, key, valid_keys)
        try:
            return options_model(plugin)(**options)
        except ValidationError as error:
            raise self._invalid_option_error(name, error.errors()[0]) from None

    def _unknown_option_error(
        self, name: str, key: str, valid_keys: Collection[str]
    ) -> ConfigError:
        remedy = suggest_name(key, {*valid_keys, *SECTION_KEYS.get(self.name, ("name",))})
        if self.name == "backends" and key in DECODING_PARAMETERS:
            correct_key = key if key == "seed" else f"decoding.{key}"
            remedy = f"Did you mean {correct_key!r}? It is not a key of the model."
        if self.name == "tasks" and key == "feedback":
            remedy = "Write rounds.feedback, which words the feedback of any task."
        if f"{name}.{key}" in _removed_options():
            remedy = "It is gone: remove it (CHANGELOG.md)."
        return ConfigError(f"The {self.title} {name!r} has no option {key!r}.", remedy)

    def _invalid_option_error(self, name: str, error: ErrorDetails) -> ConfigError:
        kind = error["type"]
        first_key, *location = map(str, error["loc"])
        keys = [key for key in location if not _TYPE_NAME.fullmatch(key)]
        option = ".".join([first_key, *keys])
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
        if option in SUPPLIED_PARAMETERS.get(self.name, ()):
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

        Args:
            name: The plug-in's name in run files.
            options: Its options in the run file.
            objects: Values for its keyword-only parameters. Values for others are ignored.

        Raises:
            ConfigError: If an option is invalid, or the plug-in fails or does not fit its
                interface.
            HarnessError: If the plug-in raises one.
        """
        validated = self.validate_options(name, options)
        plugin = self.load(name)
        parameters = supplied_parameters(plugin)
        self._check_supplied(name, parameters, {*SUPPLIED_PARAMETERS.get(self.name, ()), *objects})
        if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
            problem = f"It has no {' and no '.join(map(repr, missing))}."
            raise self._interface_error(name, problem)
        arguments = {key: objects[key] for key in parameters if key in objects}
        with wrap_errors(f"The {self.title} {name!r}"):
            built_plugin = plugin(**dict(validated), **arguments)
        problems = interface_problems(self.name, built_plugin)
        if problems:
            raise self._interface_error(name, problems[0])
        return built_plugin

    def _check_supplied(
        self, name: str, parameters: Mapping[str, Parameter], supplied: Collection[str]
    ) -> None:
        """Check that the harness supplies all keyword-only parameters without a default."""
        for key, parameter in parameters.items():
            if parameter.default is parameter.empty and key not in supplied:
                problem = f"The {self.title} {name!r} has a keyword-only parameter {key!r}, which"
                remedy = f"{suggest_name(key, supplied)} An option must be a positional parameter."
                raise ConfigError(f"{problem} the harness does not supply.", remedy.strip())

    def _interface_error(self, name: str, problem: str) -> ConfigError:
        remedy = "'harness docs plugins' lists all members, and says how to move a plug-in."
        message = f"The {self.title} {name!r} does not fit its interface. {problem}"
        return ConfigError(message, remedy)


# The name of a member of a union, which Pydantic adds to an error's location.
_TYPE_NAME = re.compile(r"str|int|float|bool|dict|(list|tuple|dict)\[.*\]")


def _declaration_remedy(kind_name: str, name: str) -> str:
    """Return a remedy if an installed package's declaration of a name cannot be read, or ""."""
    if not any(declaration.package == DISTRIBUTION for declaration in declarations()):
        return (
            "The harness was installed before its benchmarks became plug-ins: install it again "
            "(in a checkout: pip install -e . or uv sync)."
        )
    for declaration in declarations():
        if declaration.problem:
            return declaration.load_error
    for entry in entry_points(group=f"harness.{kind_name}", name=name):
        package = entry.dist.name if entry.dist else entry.value
        return (
            f"The package {package} declares it as plug-ins for version 0.1 did: declare it in "
            f"the group {GROUP} (harness docs plugins)."
        )
    return ""


def _hashed_files(module: str) -> list[Path]:
    """Return the Python files of a module's top-level package, or of the module itself."""
    for name in (module.partition(".")[0], module):
        file = getattr(sys.modules.get(name), "__file__", None)  # namespace packages have none
        if file:
            path = Path(file)
            return sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return []


def loaded_external_plugins() -> list[str]:
    """Return the loaded third-party plug-ins, sorted, in the form "task 'NAME' (PACKAGE)"."""
    names = set()
    for declaration in declarations():
        if declaration.package != DISTRIBUTION:
            for member in declaration.members():
                if member.module in sys.modules:
                    names.add(f"{member.title} ({member.package})")
    return sorted(names)


def kind(name: str) -> Kind:
    """Return a kind of plug-in by its name, such as ``tasks``.

    Raises:
        ValueError: If the name is not in `BASE_CLASSES`.
    """
    if name not in BASE_CLASSES:
        raise ValueError(f"no such kind of plug-in: {name}")
    return Kind(name)
