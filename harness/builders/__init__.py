"""Pipelines that build new benchmarks. Models that they ask are passed as an argument."""
