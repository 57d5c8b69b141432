"""What the names of runs share: the variants of one run file begin with its name.

>>> common_start(["collie.four", "collie.zero"])
'collie.'
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def common_start(names: Iterable[str]) -> str:
    """What all of several names begin with, up to a dot; empty for nothing, and of one name.

    Something is left of each name without it. The dot in a number is none: "gpt-4.1" and
    "gpt-4.5" share nothing that can go.
    """
    every = list(names)
    if len(every) < 2:
        return ""
    for dot in reversed(list(re.finditer(r"\.", every[0]))):
        start = every[0][: dot.end()]
        rests = [name[dot.end() :].strip() for name in every if name.startswith(start)]
        number = start[-2:-1].isdigit() and any(rest[:1].isdigit() for rest in rests)
        if len(rests) == len(every) and all(rests) and not number:
            return start
    return ""
