"""Converts runs to and from other tools' files, which are untrusted and never executed."""
