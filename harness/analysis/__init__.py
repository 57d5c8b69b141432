"""Analyses runs: metrics with error bars, comparisons, rankings and validation of judges."""
