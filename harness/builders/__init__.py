"""Pipelines that build new benchmarks. A pipeline that asks models is given them as an argument."""
