"""Filters of corpora, one module each: `harness.ports.Filter`.

A filter returns True for a paragraph or sentence to leave out. A corpus is foreign text, so each
takes linear time: no regular expression here can scan a text more than once.
"""
