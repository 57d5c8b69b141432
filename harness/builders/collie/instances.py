"""The instances of a built data set, in the form that the task ``collie`` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from harness.builders.collie.structure import Structure
from harness.builders.collie.yields import Yield
from harness.scoring.constraints.form import read


class Row(Struct, frozen=True):
    """An instance.

    example: the text from the corpus, which satisfies the constraint.
    near_misses: texts that do not.
    metadata: the document that the example is from, and what its source says of it.
    """

    id: str
    structure: str
    source: str
    level: str
    constraint: dict[str, Any]
    targets: Any
    prompt: str
    example: str
    metadata: dict[str, Any]
    near_misses: list[str] = field(default_factory=list)


def choose(structures: Sequence[Structure], yields: Mapping[str, Yield]) -> list[Row]:
    """The instances of what the sources have yielded, structure by structure.

    A text is in one instance of a structure at most, that of the first source that has it.

    yields: by the source's name, in order.

    Raises: DataInvalid where a structure's own prompt does not fit.
    """
    rows = []
    for structure in structures:
        texts: set[str] = set()
        for source, found in yields.items():
            number = 0
            for candidate in found.candidates.get(structure.name, []):
                if candidate.text in texts:
                    continue
                texts.add(candidate.text)
                plain = {
                    "level": structure.level,
                    "constraint": candidate.constraint,
                    "targets": candidate.targets,
                }
                specification = read(plain, f"{structure.name} from {candidate.document}")
                rows.append(
                    Row(
                        id=f"{source}/{structure.name}/{number}",
                        structure=structure.name,
                        source=source,
                        prompt=structure.instruction(specification),
                        example=candidate.text,
                        metadata={**candidate.about, "document": candidate.document},
                        **plain,
                    )
                )
                number += 1
    return rows
