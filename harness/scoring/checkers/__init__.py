"""Checkers: rules that decide whether a text is right, one per module.

A module in `FAMILIES` has several, in its table ``PLUGINS``: `ifeval` has
``ifeval:length_constraints/number_words``, `ifbench` has ``ifbench:count/pronouns``.
"""

FAMILIES = ("ifbench", "ifeval")  # modules with several checkers, each named MODULE:CHECKER
