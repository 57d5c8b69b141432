"""The plug-ins that a data set is made with, and where each is from.

What is built depends on their code: it is in the key of every stage, and in the manifest. Files
that a plug-in reads are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from harness.builders.collie.source import Source, parts
from harness.builders.collie.structure import Structure
from harness.plugins import kind
from harness.scoring.constraints.grammar import Base, Constraint
from harness.scoring.constraints.measuring import named


def plugins(
    structures: Sequence[Structure], sources: Sequence[Source]
) -> dict[str, dict[str, str]]:
    """Kind and name ("filter url") to package, version and SHA-256 of the code.

    Raises: ConfigError for one that is not there.
    """
    used = {
        *(("measures", name) for structure in structures for name in _measures(structure)),
        *(pair for source in sources for pair in _of(source)),
    }
    return {
        f"{kind(group).title} {name}": asdict(kind(group).origin(name))
        for group, name in sorted(used)
    }


def _of(source: Source) -> Iterator[tuple[str, str]]:
    for group, named_parts in (
        ("loaders", [source.load]),
        ("filters", [*source.filters, *source.passage_filters]),
        ("post_processors", source.post_processors),
    ):
        yield from ((group, name) for name, _ in parts(named_parts))


def _measures(structure: Structure) -> Iterator[str]:
    for constraint in structure.constraints:
        for base in _bases(constraint):
            name = named(base)
            if name is not None:
                yield name


def _bases(constraint: Constraint) -> Iterator[Base]:
    if isinstance(constraint, Base):
        yield constraint
        return
    for part in constraint.constraints:
        yield from _bases(part)
