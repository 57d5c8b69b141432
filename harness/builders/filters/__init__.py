"""Filters of corpora (`harness.ports.Filter`): True for a paragraph or sentence to drop.

A corpus is foreign text, so each takes linear time.
"""
