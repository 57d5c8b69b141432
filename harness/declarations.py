"""The declarations of installed plug-ins, which entry points name."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import Distribution, entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from harness.plugin import NamedTask, Plugin, Verb, View

GROUP = "harness"  # of entry points
DISTRIBUTION = "harness-instruct"  # the package that brings the harness and its own plug-ins


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
    """A class or factory, or a table of them, that a plug-in declares."""

    module: str
    attribute: str
    package: str  # the distribution that it comes from
    version: str
    entry: str = ""  # of a table
    title: str = ""  # for messages: "task 'spelling'"

    def table(self) -> Mapping[str, Callable[..., Any]]:
        """Return the table of a family."""
        table: Mapping[str, Callable[..., Any]]
        table = getattr(importlib.import_module(self.module), self.attribute)
        return table

    def load(self) -> Callable[..., Any]:
        """Import the member, and return it."""
        member: Any = getattr(importlib.import_module(self.module), self.attribute)
        return member[self.entry] if self.entry else member  # type: ignore[no-any-return]


class Declaration(NamedTuple):
    """An installed plug-in's declaration or, if it cannot be loaded, the reason."""

    name: str  # of the entry point
    home: str  # the package of the declaration's module
    package: str  # the distribution that it comes from
    version: str
    plugin: Plugin
    problem: str = ""

    def absolute(self, place: str) -> str:
        """Return a place in the declaration with the full name of its module."""
        module, _, attribute = place.partition(":")
        return f"{importlib.util.resolve_name(module, self.home)}:{attribute}"

    def file(self, name: str) -> Path:
        """Return the path of a file beside the declaration."""
        return Path(str(files(self.home) / name))

    def absolute_verb(self, verb: Verb) -> Verb:
        """Return a verb with the full names of its modules."""
        return replace(
            verb,
            place=self.absolute(verb.place),
            subverbs={name: self.absolute(place) for name, place in verb.subverbs.items()},
            completes=self.absolute(verb.completes) if verb.completes else "",
        )

    def members(self) -> Iterator[PluginMember]:
        """Yield what the declaration brings: the members of all kinds, its verbs and its views.

        Raises:
            Exception: If a place in the declaration is not of the form ``MODULE:NAME``.
        """
        for kind, members in {**vars(self.plugin), **self.plugin.extensions}.items():
            if not isinstance(members, Mapping) or kind == "judge_prompts":
                continue
            for name, place in members.items():
                if isinstance(place, Verb):
                    yield from self._verb_members(name, self.absolute_verb(place))
                elif isinstance(place, View):
                    yield self.member(kind, name, self.absolute(place.place))
                elif not isinstance(place, Mapping | NamedTask | tuple):
                    yield self.member(kind, name, self.absolute(place))

    def _verb_members(self, name: str, verb: Verb) -> Iterator[PluginMember]:
        yield self.member("verbs", name, verb.place)
        for subverb, place in verb.subverbs.items():
            yield self.member("verbs", f"{name} {subverb}", place)
        if verb.completes:
            yield self.member("verbs", name, verb.completes)

    def member(self, kind: str, name: str, absolute: str) -> PluginMember:
        """Return a member, given its kind, its name and its absolute place."""
        module, _, attribute = absolute.partition(":")
        title = f"{kind_title(kind)} {name!r}"
        return PluginMember(module, attribute, self.package, self.version, title=title)

    @property
    def fault(self) -> str:
        """A sentence that says why the declaration cannot be loaded, or ""."""
        if not self.problem:
            return ""
        return f"The plug-in {self.name!r} from {self.package} cannot be loaded ({self.problem})."


def described(error: BaseException) -> str:
    """Return an exception's type and message, and the last line of a plug-in that it came from.

    For example: "ValueError: no rows; task.py, line 3".
    """
    place = ""
    step = error.__traceback__
    while step is not None:
        package = step.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("harness", "importlib"):
            place = f"; {Path(step.tb_frame.f_code.co_filename).name}, line {step.tb_lineno}"
        step = step.tb_next
    return f"{type(error).__name__}: {str(error)[:200]}{place}"


@functools.cache
def _declarations(path: tuple[str, ...]) -> list[Declaration]:
    """Return the declarations of all installed plug-ins (cached: a look-up takes 10 ms)."""
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
        home = ""
        problem = ""
        try:
            module = importlib.import_module(entry.module)
            plugin = module.plugin
            home = module.__package__ or ""
            if not isinstance(plugin, Plugin):
                raise TypeError("its 'plugin' is no harness.plugin.Plugin")
            for _ in Declaration(entry.name, home, package, version, plugin).members():
                pass  # each place is of the right form
        except Exception as error:  # a third party's module may raise anything
            plugin = Plugin(summary="")
            problem = described(error)
        declarations.append(Declaration(entry.name, home, package, version, plugin, problem))
    return declarations


def declarations() -> list[Declaration]:
    """Return the declarations of all installed plug-ins."""
    return _declarations(tuple(sys.path))


def declared_views() -> Mapping[str, View]:
    """Return the views of saved runs that plug-ins bring, with the full names of their modules."""
    views: dict[str, View] = {}
    for declaration in declarations():
        for name, view in declaration.plugin.views.items():
            views.setdefault(name, replace(view, place=declaration.absolute(view.place)))
    return views


def named_tasks() -> Mapping[str, NamedTask]:
    """Return the tasks whose data users name, of all installed plug-ins."""
    tasks: dict[str, NamedTask] = {}
    for declaration in declarations():
        tasks |= declaration.plugin.named_tasks
    return tasks


@functools.cache
def _members(kind: str, path: tuple[str, ...]) -> Mapping[str, list[PluginMember]]:
    members: dict[str, list[PluginMember]] = {}
    built_in = getattr(CORE, kind, {})
    core = Declaration("core", "harness", DISTRIBUTION, "", CORE)
    for declaration in (core, *_declarations(path)):
        members_of_kind = declaration.plugin.extensions.get(kind, {})
        for name, place in getattr(declaration.plugin, kind, members_of_kind).items():
            if declaration is not core and name in built_in:
                continue
            member = declaration.member(kind, name, declaration.absolute(place))
            members.setdefault(name, []).append(member)
    return members


def declared_members(kind: str) -> Mapping[str, list[PluginMember]]:
    """Return the members of a kind in all declarations and in the core, by name.

    Args:
        kind: A field of `Plugin`, such as ``tasks``, or a kind of its ``extensions``.
    """
    return _members(kind, tuple(sys.path))


def load_members(kind: str, name: str) -> Iterator[Callable[..., Any]]:
    """Import and yield all plug-ins' members of this kind and name."""
    for member in declared_members(kind).get(name, ()):
        yield member.load()
