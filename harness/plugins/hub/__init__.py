"""Data sets of the Hugging Face Hub as rows."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Data sets of the Hugging Face Hub as rows.",
    tasks={"hub": ".task:HubTask"},
)
