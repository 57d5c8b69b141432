"""What a vLLM that did not start says was wrong, out of the end of its log.

>>> telling("usage: server [-h]\\n  [--dtype D]\\nserver: error: unrecognized arguments: --x")
'error: unrecognized arguments: --x'
"""

from __future__ import annotations

import re
from difflib import get_close_matches

TAIL_LINES = 100
"""The last lines of a log, among which an error is to be looked for."""

ERROR = re.compile(
    r"(?:^|^\S+: |[\])] )(?P<said>(?:[\w.]*(?:Error|Exception): |error: ).+)", re.MULTILINE
)
"""As Python and argparse write it; before it stand the program, or process, time and place."""
AFTER, MOST, WIDEST = 2, 10, 500
"""Lines of an error's message that may follow its first one; lines that are shown; letters."""
OTHER = re.compile(
    r"Traceback|The above exception|During handling|usage: |\s*(File \"|\^+$)|"
    r".*\b(INFO|WARNING|ERROR) "
)
"""What follows is no part of the message."""

UNKNOWN = re.compile(r"error: unrecognized arguments: --(?:no-)?([\w-]+)")
WRONG = re.compile(r"error: argument (?:-\w/)?--([\w-]+)")
NO_MODEL = (
    "not a valid model identifier",
    "cached snapshot folder",
    "Repository Not Found",
    "Invalid repository ID",
)


def telling(said: str) -> str:
    """The lines that name an error, each once, and what follows them; all where none does."""
    lines = [line for line in said.splitlines() if line.strip()]
    found: dict[str, None] = {}
    for number, line in enumerate(lines):
        if match := ERROR.search(line):
            found[match["said"]] = None
            for more in lines[number + 1 : number + 1 + AFTER]:
                if ERROR.search(more) or OTHER.match(more):
                    break
                found[more] = None
    return "\n".join([line[:WIDEST] for line in found][-MOST:]) or said


def remedy(said: str) -> str:
    """The key of the run file that is likely wrong; empty where that is not known."""
    if match := UNKNOWN.search(said):
        flags = {flag for flag in re.findall(r"--([a-z][\w-]+)", said) if flag != match[1]}
        close = get_close_matches(match[1], flags, n=1)
        meant = f" Did you mean {_name(close[0])}?" if close else ""
        return f"Mend model.engine.{_name(match[1])}: this vLLM has no such argument.{meant}"
    if match := WRONG.search(said):
        return f"Mend model.engine.{_name(match[1])}."
    if any(words in said for words in NO_MODEL):
        return "Check model.path, or model.name where that is not set, and model.lora."
    return ""


def _name(flag: str) -> str:
    return flag.replace("-", "_")
