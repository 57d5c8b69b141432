"""Recorded answers instead of calls."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Recorded answers instead of calls.",
    backends={"replay": ".backend:ReplayBackend"},
)
