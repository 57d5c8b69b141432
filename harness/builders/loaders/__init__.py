"""Loaders of corpora (`harness.ports.Loader`).

A document that cannot be read says so (`Document.problem`) and is counted, but ends no build.
"""
