"""Where corpora come from, a module each: `harness.ports.Loader`.

A loader names its documents first, and reads only those that were chosen. Documents are foreign
data: one that cannot be read says so (`Document.problem`) and is counted; it ends no build.
"""
