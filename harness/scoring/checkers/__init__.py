"""Checkers: rules that decide whether text passes. A module defines one checker."""
