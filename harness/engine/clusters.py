"""Clusters of machines for copies of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from harness.config.sections import PlacementSection
from harness.declarations import declared_members
from harness.errors import ConfigError, nearest
from harness.plugin import CheckupFinding
from harness.ports import Backend


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What a cluster can do. A plug-in declares such an object as one of its ``clusters``.

    Run files name it as ``model.placement.engine``.

    Attributes:
        place: Builds a backend whose calls are made by copies of another one, from that one's
            name and options, the section ``placement``, and what the harness supplies to backends.
        check: Checks the machines, and whether the placed models, by name, fit on them.
    """

    place: Callable[[str, Mapping[str, Any], PlacementSection, Mapping[str, Any]], Backend]
    check: Callable[[Mapping[str, PlacementSection]], Iterator[CheckupFinding]]


def cluster(name: str) -> Cluster:
    """Return a cluster by its name.

    Raises:
        ConfigError: If no plug-in declares it.
    """
    clusters = declared_members("clusters")
    if name not in clusters:
        raise ConfigError(f"There is no cluster named {name!r}.", nearest(name, clusters))
    return cast("Cluster", clusters[name][0].load())
