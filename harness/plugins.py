"""The one door for parts that a run file names: backends, tasks, checkers, judges.

A built-in is a module of the kind's package (module name = name in the run
file); a third party registers an entry point in the kind's group. Both offer
the same thing: a callable, for a module under the name ``plugin``. Its
parameters are the options of the run file, validated by their annotations;
its keyword-only parameters are what the harness hands over.

>>> kind("backends").names()  # doctest: +SKIP
['openai', 'replay', 'simulated']
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel

PACKAGES = {
    "backends": "harness.backends",
    "tasks": "harness.tasks",
    "checkers": "harness.scoring.checkers",
    "judges": "harness.scoring.judges",
}
"""Kind -> package of the built-ins; the entry-point group is ``harness.KIND``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """All plug-ins of one kind."""

    name: str

    def _builtins(self) -> list[str]:
        package = importlib.import_module(PACKAGES[self.name])
        return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.name[0] != "_")

    def _external(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=f"harness.{self.name}")}

    def names(self) -> list[str]:
        """Every name that a run file may use here."""
        return sorted({*self._builtins(), *self._external()})

    def load(self, name: str) -> Callable[..., Any]:
        """The plug-in's class or factory.

        Raises: ConfigError for an unknown name, with the nearest valid one.
        """
        if name in self._builtins():  # a built-in is never shadowed by an entry point
            module = importlib.import_module(f"{PACKAGES[self.name]}.{name}")
            plugin: Callable[..., Any] = module.plugin
            return plugin
        external = self._external()
        if name in external:
            loaded: Callable[..., Any] = external[name].load()
            return getattr(loaded, "plugin", loaded)
        raise ConfigError(
            f"There is no {self.name.removesuffix('s')} named {name!r}.",
            nearest(name, self.names()),
        )

    def options(self, name: str, options: Mapping[str, Any]) -> BaseModel:
        """The options of the run file for a plug-in, checked, defaults filled in.

        Raises: ConfigError for an unknown or wrong option.
        """
        from pydantic import ConfigDict, ValidationError, create_model

        where = f"{self.name.removesuffix('s')} {name!r}"
        own = _parameters(self.load(name), given=False)
        for key in options:
            if key not in own:
                raise ConfigError(f"The {where} has no option {key!r}.", nearest(key, own))
        fields: dict[str, Any] = {
            key: (p.annotation, ... if p.default is p.empty else p.default)
            for key, p in own.items()
        }
        model = create_model(
            "Options", __config__=ConfigDict(arbitrary_types_allowed=True), **fields
        )
        try:
            return model(**options)
        except ValidationError as error:
            first = error.errors()[0]
            option = ".".join(str(part) for part in first["loc"])
            message = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
            raise ConfigError(f"Option {option!r} of the {where}: {message}.") from None

    def build(self, name: str, options: Mapping[str, Any], **given: Any) -> Any:
        """Build a plug-in from the options of the run file.

        given: what the harness itself hands over (data folder, secrets, ...):
            each plug-in gets those that it asks for as keyword-only parameters.

        Raises: ConfigError for an unknown or wrong option.
        """
        checked = self.options(name, options)
        plugin = self.load(name)
        offered = {key: given[key] for key in _parameters(plugin, given=True) if key in given}
        chosen = {key: getattr(checked, key) for key in type(checked).model_fields}
        return plugin(**chosen, **offered)


def _parameters(plugin: Callable[..., Any], *, given: bool) -> dict[str, inspect.Parameter]:
    """A plug-in's options, or (keyword-only) what it wants to be given."""
    signature = inspect.signature(plugin, eval_str=True)
    return {
        name: parameter
        for name, parameter in signature.parameters.items()
        if (parameter.kind is parameter.KEYWORD_ONLY) is given
    }


def kind(name: str) -> Kind:
    """The plug-ins of ``backends``, ``tasks``, ``checkers`` or ``judges``."""
    if name not in PACKAGES:
        raise ValueError(f"no such kind of plug-in: {name}")
    return Kind(name)
