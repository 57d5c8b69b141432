"""Pipelines that build new benchmarks. A stage that asks models receives them as an argument."""
