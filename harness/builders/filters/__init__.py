"""What is no natural text in a corpus, a module each: `harness.ports.Filter`.

A filter says True of a paragraph or sentence that is to be left out. The corpus is foreign text, so
each takes time linear in it: no regular expression here can go over a text more than once.
"""
