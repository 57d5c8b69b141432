"""How many connections this process can hold: each is an open file, and those are bounded."""

from __future__ import annotations

import contextlib
import sys

if sys.platform != "win32":
    import resource

MANY = 65_536
"""What is not bounded is taken as so many."""


def connections() -> int:
    """How many connections one model may hold: half of the files, the rest is for all else.

    Raises the bound of this process to what the system allows it (``ulimit -Hn``).
    """
    if sys.platform == "win32":  # it has no such bound
        return MANY // 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MANY if hard == resource.RLIM_INFINITY else min(hard, MANY)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        with contextlib.suppress(ValueError, OSError):  # macOS has a further bound, and names none
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (MANY if soft == resource.RLIM_INFINITY else min(soft, MANY)) // 2
