"""Benchmarks: one per module, with its instances, prompts and scoring."""
