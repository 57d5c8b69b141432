"""Checkers: rules that decide whether text passes.

A module defines one checker. A module in `FAMILIES` defines several, listed in its table
``PLUGINS``. For example, `ifeval` defines ``ifeval:length_constraints/number_words``.
"""

FAMILIES = ("ifbench", "ifeval")  # modules with several checkers, each named MODULE:CHECKER
