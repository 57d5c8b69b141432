"""Numbers that constraints may ask for and the grammar has no word for: `harness.ports.Measure`.

A module each; the grammar names one as ``{op: measure, name: …}``.
"""
