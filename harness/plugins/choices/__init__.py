"""Multiple choice over rows: options with letters, and the option that a reply chooses."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Multiple choice over rows (the option choices of the task jsonl).",
    measurements={"positions": ".positions:measured_positions"},
    section_builders={"task.choices": ".multiple_choice:MultipleChoice"},
)
