"""The declarations of installed plug-ins, which entry points name."""

import functools
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from harness.plugin import NamedTask, Plugin, Verb, View

GROUP = "harness"  # of entry points
DISTRIBUTION = "harness-instruct"  # the package that contains the harness and its plug-ins


CORE = Plugin(
    summary="What the harness brings without plug-ins.",
    tasks={"jsonl": ".tasks:JsonlTask"},
    backends={
        "openai": ".backends.openai:OpenAIBackend",
        "simulated": ".backends.simulated:SimulatedBackend",
    },
    checkers={
        "contains": ".scoring.checkers:ContainsChecker",
        "exact_match": ".scoring.checkers:ExactMatchChecker",
        "json_schema": ".scoring.checkers:JsonSchemaChecker",
        "regex_match": ".scoring.checkers:RegexMatchChecker",
        "word_count": ".scoring.checkers:WordCountChecker",
    },
    judges={"yes_no": ".scoring.judges:YesNo"},
    removed_options={"yes_no.rules": ("beside",)},
)
"""The built-in tasks, backends, checkers and judges. No plug-in shadows them."""


def kind_title(kind: str) -> str:
    """Return a kind of member in the singular, for messages ("post-processor")."""
    return kind.removesuffix("s").replace("_", "-")


class PluginMember(NamedTuple):
    """A reference to a class or factory, or to a table of them, from a plug-in's declaration."""

    module: str
    attribute: str
    package: str  # the distribution that it comes from
    version: str
    entry: str = ""  # the key in a table of factories; "" for a single member
    title: str = ""  # for messages: "task 'spelling'"

    def table(self) -> Mapping[str, Callable[..., Any]]:
        """Import and return the table of factories that the reference names."""
        table: Mapping[str, Callable[..., Any]]
        table = getattr(importlib.import_module(self.module), self.attribute)
        return table

    def load(self) -> Callable[..., Any]:
        """Import the member, and return it."""
        member: Any = getattr(importlib.import_module(self.module), self.attribute)
        return member[self.entry] if self.entry else member  # type: ignore[no-any-return]


class Declaration(NamedTuple):
    """An installed plug-in's declaration, which is empty if it cannot be loaded."""

    name: str  # of the entry point
    home: str  # the package of the declaration's module
    package: str  # the distribution that it comes from
    version: str
    plugin: Plugin
    problem: str = ""  # why it cannot be loaded

    def resolve(self, reference: str) -> str:
        """Return a reference of the declaration (``MODULE:NAME``) with an absolute module name."""
        module, _, attribute = reference.partition(":")
        return f"{importlib.util.resolve_name(module, self.home)}:{attribute}"

    def file_path(self, name: str) -> Path:
        """Return the path of a file next to the declaration's module."""
        return Path(str(files(self.home) / name))

    def resolve_verb(self, verb: Verb) -> Verb:
        """Return a verb whose references have absolute module names."""
        return replace(
            verb,
            target=self.resolve(verb.target),
            subverbs={name: self.resolve(target) for name, target in verb.subverbs.items()},
            completes=self.resolve(verb.completes) if verb.completes else "",
        )

    def members(self) -> Iterator[PluginMember]:
        """Yield the declared members of all kinds, including verbs and views.

        Raises:
            Exception: If a reference in the declaration is not of the form ``MODULE:NAME``.
        """
        for kind, members in {**vars(self.plugin), **self.plugin.extensions}.items():
            if not isinstance(members, Mapping) or kind == "judge_prompts":
                continue
            for name, member in members.items():
                if isinstance(member, Verb):
                    yield from self._verb_members(name, self.resolve_verb(member))
                elif isinstance(member, View):
                    yield self.make_member(kind, name, self.resolve(member.target))
                elif not isinstance(member, Mapping | NamedTask | tuple):
                    yield self.make_member(kind, name, self.resolve(member))

    def _verb_members(self, name: str, verb: Verb) -> Iterator[PluginMember]:
        yield self.make_member("verbs", name, verb.target)
        for subverb, target in verb.subverbs.items():
            yield self.make_member("verbs", f"{name} {subverb}", target)
        if verb.completes:
            yield self.make_member("verbs", name, verb.completes)

    def make_member(self, kind: str, name: str, reference: str) -> PluginMember:
        """Make a member of a kind, such as ``tasks``, from an absolute reference."""
        module, _, attribute = reference.partition(":")
        title = f"{kind_title(kind)} {name!r}"
        return PluginMember(module, attribute, self.package, self.version, title=title)

    @property
    def load_error(self) -> str:
        """A sentence with the reason why the declaration cannot be loaded, or ""."""
        if not self.problem:
            return ""
        return f"The plug-in {self.name!r} from {self.package} cannot be loaded ({self.problem})."


def describe_exception(error: BaseException) -> str:
    """Describe an exception by its type, its message, and the plug-in's line that raised it.

    For example: "ValueError: no rows; task.py, line 3". The plug-in may have called libraries. Its
    code is that outside installed packages or else, as it may be installed itself, that of the
    first package called. The harness and the standard library do not count.
    """
    locations: dict[str, str] = {}  # the last line of each installed package, and of others as ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in {"harness", *sys.stdlib_module_names}:
            is_installed = "-packages" in file  # site-packages, or Debian's dist-packages
            locations[package if is_installed else ""] = f"; {Path(file).name}, line {line}"
    location = locations.get("") or next(iter(locations.values()), "")
    return f"{type(error).__name__}: {str(error)[:200]}{location}"


@functools.cache
def _cached_declarations(path: tuple[str, ...]) -> list[Declaration]:
    """Return the declarations of all plug-ins installed in ``sys.path`` (a look-up takes 10 ms)."""
    declarations = []
    versions: dict[Distribution, tuple[str, str]] = {}  # reading one takes half a millisecond
    for entry in entry_points(group=GROUP):
        distribution = entry.dist
        if distribution is None:
            package, version = entry.value, ""
        else:
            if distribution not in versions:
                versions[distribution] = (distribution.name, distribution.version)
            package, version = versions[distribution]
        declarations.append(_load_declaration(entry, package, version))
    return declarations


def _load_declaration(entry: EntryPoint, package: str, version: str) -> Declaration:
    home = ""
    try:
        module = importlib.import_module(entry.module)
        plugin = module.plugin
        home = module.__package__ or ""
        if not isinstance(plugin, Plugin):
            raise TypeError("its 'plugin' is no harness.plugin.Plugin")
        declaration = Declaration(entry.name, home, package, version, plugin)
        for _ in declaration.members():
            pass  # raises an error if a reference has a wrong form
    except Exception as error:  # a third party's module may raise anything
        problem = describe_exception(error)
        return Declaration(entry.name, home, package, version, Plugin(summary=""), problem)
    return declaration


def declarations() -> list[Declaration]:
    """Return the declarations of all installed plug-ins."""
    return _cached_declarations(tuple(sys.path))


def declared_views() -> Mapping[str, View]:
    """Return the views of saved runs that plug-ins declare, by name, with absolute references."""
    views: dict[str, View] = {}
    for declaration in declarations():
        for name, view in declaration.plugin.views.items():
            views.setdefault(name, replace(view, target=declaration.resolve(view.target)))
    return views


def named_tasks() -> Mapping[str, NamedTask]:
    """Return the tasks of all installed plug-ins whose data users name, by the task's name."""
    tasks: dict[str, NamedTask] = {}
    for declaration in declarations():
        tasks |= declaration.plugin.named_tasks
    return tasks


@functools.cache
def _cached_members(kind: str, path: tuple[str, ...]) -> Mapping[str, list[PluginMember]]:
    members: dict[str, list[PluginMember]] = {}
    built_in = getattr(CORE, kind, {})
    core = Declaration("core", "harness", DISTRIBUTION, "", CORE)
    for declaration in (core, *_cached_declarations(path)):
        extensions = declaration.plugin.extensions.get(kind, {})
        for name, reference in getattr(declaration.plugin, kind, extensions).items():
            if declaration is not core and name in built_in:
                continue
            member = declaration.make_member(kind, name, declaration.resolve(reference))
            members.setdefault(name, []).append(member)
    return members


def declared_members(kind: str) -> Mapping[str, list[PluginMember]]:
    """Return the members of a kind in all declarations and in the core, by name.

    Args:
        kind: A field of `Plugin`, such as ``tasks``, or a kind of its ``extensions``.
    """
    return _cached_members(kind, tuple(sys.path))


def load_members(kind: str, name: str) -> Iterator[Callable[..., Any]]:
    """Import and yield the members of this kind and name from all plug-ins."""
    for member in declared_members(kind).get(name, ()):
        yield member.load()
