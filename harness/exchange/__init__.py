"""Converts runs to and from other tools' untrusted files: nothing in them is executed."""
