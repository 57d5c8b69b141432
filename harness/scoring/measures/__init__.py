"""Measures for constraints beyond the grammar, which names one as ``{op: measure, name: …}``."""
