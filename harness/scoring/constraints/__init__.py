"""Constraints on a text, in the grammar of COLLIE (Yao et al. 2023, arXiv 2307.08689).

`grammar` defines the objects and their plain form, `check` splits a text into units and checks it,
and `render` writes the instruction, the feedback and the score.
"""
