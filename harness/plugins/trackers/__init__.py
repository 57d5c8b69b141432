"""Observers that report runs to other systems while the runs are in progress."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Observers that report runs to other systems while they are in progress.",
    observers={"otel": ".otel:OpenTelemetry"},
)
