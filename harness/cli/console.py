"""The two streams of the command line: results on stdout, everything else on stderr."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console

PIPED = (160, 24)
"""Width and height of output to a file or another program, unless COLUMNS is set."""

output = Console(
    highlight=False,
    width=None if sys.stdout.isatty() else shutil.get_terminal_size(PIPED).columns,
)
messages = Console(stderr=True, highlight=False)
