"""`harness prices`: what the providers charge, as far as it is known here."""

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
        str, typer.Argument(metavar="FILTER", help="Part of a host's or a model's name.")
    ] = "",
) -> None:
    """List what models cost, with the day and the page that each price is from."""
    list_prices(wanted)


def list_prices(wanted: str) -> None:
    """Print the prices whose host or model holds `wanted`, in whatever case.

    Raises: ConfigError, where the user's own file is not as it must be.
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
        messages.print(Text(f"No price of a host or model named like {wanted!r}."), soft_wrap=True)
    messages.print(
        Text(
            "Another price, or another model: state it as model.price in the run file, or in a "
            "YAML file named by HARNESS_PRICES "
            f"({'not set' if path is None else f'now {path}'}): see docs/prices.md."
        ),
        soft_wrap=True,
    )
