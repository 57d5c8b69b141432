"""Loaders of corpora, one module each: `harness.ports.Loader`.

A loader names its documents first and reads only the chosen ones. Documents are foreign data: one
that cannot be read says so (`Document.problem`) and is counted, but does not end a build.
"""
