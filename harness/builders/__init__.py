"""Pipelines that build new benchmarks."""
