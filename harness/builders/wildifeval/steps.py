"""What a step of the curation dropped, and why: counts, and some examples.

>>> step = Step("screen", 10)
>>> step.leave_out("toxic", "b", "You …")
>>> step.left, step.share("toxic")
(9, 0.1)
"""

from __future__ import annotations

from msgspec import Struct, field

EXAMPLES = 3
"""Examples that are kept of each reason."""

LONGEST = 300
"""Characters that are kept of an example."""


class Example(Struct, frozen=True):
    """Something that was dropped; ``detail`` says what was found in it."""

    id: str
    text: str
    detail: str = ""


class Step(Struct):
    """A step that drops tasks; ``before`` counts those that came to it."""

    name: str
    before: int
    removed: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def leave_out(self, reason: str, id: str, text: str, detail: str = "") -> None:
        """Count one task as dropped."""
        self.removed[reason] = self.removed.get(reason, 0) + 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < EXAMPLES:
            shown.append(Example(id, text[:LONGEST], detail))

    @property
    def left(self) -> int:
        """Tasks that passed."""
        return self.before - sum(self.removed.values())

    def share(self, reason: str) -> float:
        """The share of the incoming tasks that was dropped for a reason."""
        return self.removed.get(reason, 0) / self.before if self.before else 0.0
