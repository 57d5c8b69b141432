"""The two streams of the command line: results on stdout, everything else on stderr."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console

PIPED = (160, 24)
"""Columns and lines of what goes to a file or another program, where COLUMNS does not say."""

output = Console(
    highlight=False,
    width=None if sys.stdout.isatty() else shutil.get_terminal_size(PIPED).columns,
)
messages = Console(stderr=True, highlight=False)
