"""The declarations of installed plug-ins, which entry points name."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from harness.plugin import NamedTask, Plugin, Verb, View

GROUP = "harness"  # of entry points
DISTRIBUTION = "harness-instruct"  # the package that brings the harness and its own plug-ins


class PluginMember(NamedTuple):
    """A class or factory, or a table of them, that a plug-in declares."""

    module: str
    attribute: str
    package: str  # the distribution that it comes from
    version: str
    entry: str = ""  # of a table

    def table(self) -> Mapping[str, Callable[..., Any]]:
        """Return the table of a family."""
        table: Mapping[str, Callable[..., Any]]
        table = getattr(importlib.import_module(self.module), self.attribute)
        return table

    def load(self) -> Callable[..., Any]:
        """Import the member, and return it."""
        if self.entry:
            return self.table()[self.entry]
        member: Callable[..., Any] = getattr(importlib.import_module(self.module), self.attribute)
        return member


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

    def check(self) -> None:
        """Raise an exception if a place in the declaration is not of the form ``MODULE:NAME``."""
        for brought in (*vars(self.plugin).values(), *self.plugin.extensions.values()):
            for place in brought.values() if isinstance(brought, Mapping) else ():
                if isinstance(place, Verb):
                    self.absolute_verb(place)
                elif isinstance(place, View):
                    self.absolute(place.place)
                elif not isinstance(place, Mapping | NamedTask | tuple):
                    self.absolute(place)


@functools.cache
def _declarations(path: tuple[str, ...]) -> list[Declaration]:
    """Return the declarations of all installed plug-ins (cached: a look-up takes 10 ms)."""
    declarations = []
    for entry in entry_points(group=GROUP):
        package = entry.dist.name if entry.dist else entry.value
        version = entry.dist.version if entry.dist else ""
        home = ""
        problem = ""
        try:
            module = importlib.import_module(entry.module)
            plugin = module.plugin
            home = module.__package__ or ""
            if not isinstance(plugin, Plugin):
                raise TypeError("its 'plugin' is no harness.plugin.Plugin")
            Declaration(entry.name, home, package, version, plugin).check()
        except Exception as error:  # a third party's module may raise anything
            plugin = Plugin(summary="")
            problem = f"{type(error).__name__}: {error}"
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
    for declaration in _declarations(path):
        members_of_kind = declaration.plugin.extensions.get(kind, {})
        for name, place in getattr(declaration.plugin, kind, members_of_kind).items():
            module, _, attribute = declaration.absolute(place).partition(":")
            member = PluginMember(module, attribute, declaration.package, declaration.version)
            members.setdefault(name, []).append(member)
    return members


def declared_members(kind: str) -> Mapping[str, list[PluginMember]]:
    """Return the members of a kind in all declarations, by name.

    Args:
        kind: A field of `Plugin`, such as ``tasks``, or a kind of its ``extensions``.
    """
    return _members(kind, tuple(sys.path))
