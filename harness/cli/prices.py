"""`harness prices`: what providers charge, as far as known."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from harness.cli.console import messages, output
from harness.config.prices import load_prices
from harness.config.settings import Settings
from harness.report.listings import price_document
from harness.report.terminal import terminal

PIPE_WIDTH = 120


def prices(
    wanted: Annotated[
        str, typer.Argument(metavar="FILTER", help="Part of a host or model name.")
    ] = "",
) -> None:
    """List model prices, each with its date and source."""
    list_prices(wanted)


def list_prices(wanted: str) -> None:
    """Print the prices whose host or model contains a text, ignoring case.

    Raises:
        ConfigError: The user's own price file is not valid.
    """
    path = Settings().prices
    found = [
        entry
        for entry in load_prices(path)
        if wanted.casefold() in entry.host or wanted.casefold() in entry.model.casefold()
    ]
    if found:
        hosts = {entry.host: None for entry in found}  # in the order of the files
        found.sort(key=lambda entry: list(hosts).index(entry.host))
        # Into a pipe: names stay whole, for grep.
        width = None if output.is_terminal else max(output.width, PIPE_WIDTH)
        document = price_document(found, None if path is None else str(path))
        output.print(terminal(document), width=width)
    else:
        messages.print(Text(f"No host or model with a price matches {wanted!r}."), soft_wrap=True)
    messages.print(
        Text(
            "To set your own price, use model.price in the run file, or a YAML file named by "
            "HARNESS_PRICES "
            f"({'not set' if path is None else f'now {path}'}): see docs/prices.md."
        ),
        soft_wrap=True,
    )
