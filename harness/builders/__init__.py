"""Pipelines that build new benchmarks. The models that they ask are passed in as arguments."""
