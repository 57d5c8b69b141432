"""Converts runs to and from the files of other tools. These are untrusted and never executed."""
