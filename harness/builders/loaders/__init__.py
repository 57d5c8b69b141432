"""Loaders of corpora (`harness.ports.Loader`).

An unreadable document says so (`Document.problem`) and is counted, but does not end the build.
"""
