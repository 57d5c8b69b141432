"""Measures of an answer against references that need a package or a model of their own."""
