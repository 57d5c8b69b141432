"""Runs to and from other tools' files.

Owns what a run looks like elsewhere: a table (Parquet, CSV), an Inspect log, lm-eval's
samples; and a run's folder made of the latter two. No other tool's package is imported:
their files are data, those that are read are bounded, and nothing in them is executed.
"""
