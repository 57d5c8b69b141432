"""The measures that plug-ins add to the grammar, found by name.

>>> measure("prime").number(("One", "two", "three"))  # doctest: +SKIP
1
"""

from __future__ import annotations

from functools import cache

from harness.errors import ConfigError, DataInvalid
from harness.plugins import kind
from harness.ports import Measure


@cache
def measure(name: str) -> Measure:
    """A measure, made once.

    Raises: ConfigError where there is none of this name.
    """
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
