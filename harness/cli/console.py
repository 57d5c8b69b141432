"""The two streams of the command line: results on stdout, everything else on stderr."""

from __future__ import annotations

from rich.console import Console

output = Console(highlight=False)
messages = Console(stderr=True, highlight=False)
