"""COLLIE."""
