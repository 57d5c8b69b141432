"""The measures that plug-ins add to the grammar, found by name.

>>> measure("prime").number(("One", "two", "three"))  # doctest: +SKIP
1
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from functools import cache

from harness.errors import ConfigError, DataInvalid
from harness.plugins import calling, kind
from harness.ports import Measure
from harness.scoring.constraints import grammar


@cache
def measure(name: str) -> Measure:
    """A measure, made once.

    Raises: ConfigError where there is none of this name, or it cannot be made.
    """
    with calling(f"The measure {name!r}"):
        found: Measure = kind("measures").build(name, {})
    return found


def known(name: str, where: str) -> None:
    """Refuse a measure that is not there.

    where: how a message names the place.

    Raises: DataInvalid.
    """
    try:
        measure(name)
    except ConfigError as error:
        raise DataInvalid(
            f"{where}: {error.message}",
            error.remedy or "Install the package that has it (docs/collie_build.md).",
        ) from None


def fingerprints(specification: grammar.Specification) -> Iterator[tuple[str, str]]:
    """The measures that a specification asks for, each with a hash of its code.

    What the code calls elsewhere is not in the hash.
    """
    for base, _ in specification.bases():
        name = named(base)
        if name is not None:
            yield name, _code_sha256(name)


def named(base: grammar.Base) -> str | None:
    """The measure that a base constraint asks for; None where it asks for none."""
    done: grammar.Transformation = base.transformation
    while isinstance(done, grammar.ForEach | grammar.Max | grammar.Min):
        done = done.do
    return done.name if isinstance(done, grammar.Measure) else None


@cache
def _code_sha256(name: str) -> str:
    try:
        code = inspect.getsource(type(measure(name)))
    except (OSError, TypeError):  # made without a file
        return "unknown"
    return hashlib.sha256(code.encode()).hexdigest()
