"""Judges that choose: a rubric's named choices, and the better of two answers."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Judges that choose: a rubric's named choices, and the better of two answers.",
    judges={"choice": ".choice:Choice", "pairwise": ".choice:Pairwise"},
)
