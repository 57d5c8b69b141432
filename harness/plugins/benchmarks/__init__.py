"""Benchmarks: each in one folder, with its task, its checkers and its judge."""
