"""Checkers that decide by rule whether a text is right, one per module."""
