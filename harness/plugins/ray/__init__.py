"""Copies of models on the machines of a Ray cluster."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Copies of models on the machines of a Ray cluster.",
    clusters={"ray": ".placed:RAY"},
)
