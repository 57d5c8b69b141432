"""Measures for constraints beyond the grammar, one plug-in per module (`harness.ports.Measure`).

The grammar names one as ``{op: measure, name: …}``.
"""
