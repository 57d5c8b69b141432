"""Constraints on text, in the grammar of COLLIE (Yao et al. 2023, arXiv 2307.08689).

`grammar` defines constraints as objects and as plain data for YAML and JSON. `check` splits text
into units and checks it. `render` writes the instruction, the feedback and the score.
"""
