"""Constraints in plain English that a rule can decide: recognised, and checked.

`recognition` says which rule decides a constraint, or that none does; `wording` and `amounts` read
its words. The rules are `lengths`, `keywords`, `forms` and, of several, `rule.Every`. When in doubt
there is no rule: a constraint that only a reader can decide is a judge's.

>>> from harness.scoring.rules import recognise
>>> rule = recognise("Keep the text below 80 words.")
>>> rule.name, rule.check("Three short words.").passed
('word_count', True)
>>> recognise("Keep the text short.") is None
True
"""

from harness.scoring.rules.recognition import recognise
from harness.scoring.rules.rule import Rule, Verdict, rules_version

__all__ = ["Rule", "Verdict", "recognise", "rules_version"]
