"""A task whose instances have criteria, for the judges that decide on them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.records import Criterion, Instance
from tests.conftest import Sums

CRITERIA = (
    Criterion("It has three lines.", {"category": "Length"}),
    Criterion("It has snow in it.", {"category": "Include / Avoid", "by": "hand"}),
    Criterion("It is kind."),
)


class Poems(Sums):
    """Asks for poems; instance n has its first n criteria, the first instance all."""

    def instruction(self, instance: Instance[int]) -> str:
        return f"Write poem {instance.data}."

    def criteria(self, instance: Instance[int]) -> Sequence[Criterion]:
        return CRITERIA[: instance.data] if instance.data else CRITERIA
