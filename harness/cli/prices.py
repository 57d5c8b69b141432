"""`harness prices`: what providers charge, as far as known."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.console import output, say
from harness.config.prices import load_prices
from harness.config.settings import Settings
from harness.report.listings import price_document
from harness.report.terminal import terminal

PIPE_WIDTH = 120
"""Into a pipe: names stay whole, for grep."""


def prices(
    wanted: Annotated[
        str, typer.Argument(metavar="FILTER", help="Part of a host or model name.")
    ] = "",
) -> None:
    """List model prices, each with its date and source."""
    path = Settings().prices
    text = wanted.casefold()
    found = [
        entry for entry in load_prices(path) if text in entry.host or text in entry.model.casefold()
    ]
    if found:
        hosts = list(dict.fromkeys(entry.host for entry in found))  # in the order of the files
        found.sort(key=lambda entry: hosts.index(entry.host))
        width = None if output.is_terminal else max(output.width, PIPE_WIDTH)
        document = price_document(found, None if path is None else str(path))
        output.print(terminal(document), width=width)
    else:
        say(f"No host or model with a price matches {wanted!r}.")
    own = "not set" if path is None else f"now {path}"
    say(
        "To set your own price, use model.price in the run file, or a YAML file named by "
        f"HARNESS_PRICES ({own}): see docs/prices.md."
    )
