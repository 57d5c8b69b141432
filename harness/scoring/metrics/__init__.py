"""Metrics of an answer against references that need a separate package or model."""
