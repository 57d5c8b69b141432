"""Measures runs: metrics with error bars, comparisons, rankings and the validation of judges."""
