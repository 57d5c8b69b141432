"""Constraints on a text, as a grammar: written down, checked, rendered, explained.

The grammar is that of COLLIE (Yao et al. 2023, arXiv 2307.08689). `grammar` has
its objects, `form` reads and writes them, `shapes` refuses what could never be
checked. `levels` splits a text into units (`punkt`, `plain_words`), `check` says
what was observed and whether it is what was asked (`relations`). `render` words
the instruction, `feedback` the next turn, `scores` the score. `measuring` finds the measures that
plug-ins add.

>>> from harness.scoring.constraints import form, render
>>> three_words = form.read({"level": "sentence", "targets": 3, "constraint": {
...     "target_level": "word", "transformation": {"op": "count"}, "relation": "=="}})
>>> render.instruction(three_words)
'Please generate a sentence with exactly 3 words.'
"""
