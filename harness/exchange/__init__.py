"""Conversion of runs to and from other tools' files: tables (Parquet, CSV), Inspect logs, lm-eval
samples.

Files of other tools are untrusted data: their sizes are bounded and nothing in them is executed.
"""
