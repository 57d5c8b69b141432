"""Pipelines that build new benchmarks. Stages that ask models receive the models as an argument."""
