r"""Drops text with a URL.

The paper's pattern is ``(http(s)?://)?(www\.)?[a-zA-Z0-9\-]+\.[a-zA-Z]{2,6}(\.[a-zA-Z]{2,6})?``
``(/[a-zA-Z0-9\-]*)*(\?[a-zA-Z0-9\-=&]*)?``. Everything but a name, a dot and two letters is
optional, so these alone decide; the whole pattern would take quadratic time on a long run of
letters.
"""

import re

from harness.ports import Filter


def plugin() -> Filter:
    """Drop text with a URL, or what looks like one ("the end.Then")."""
    name_and_ending = re.compile(r"[a-zA-Z0-9\-]\.[a-zA-Z]{2}")
    return lambda text: name_and_ending.search(text) is not None
