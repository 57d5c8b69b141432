"""Converts runs to and from other tools' files. Such files are untrusted and never executed."""
