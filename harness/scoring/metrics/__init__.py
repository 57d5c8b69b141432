"""Metrics that compare an answer with references, each using a separate package or model."""
