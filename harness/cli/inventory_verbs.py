"""What there is: `tasks`, `backends`, `prices`, `doctor`."""

from __future__ import annotations

from typing import Annotated

import typer


def tasks() -> None:
    """List the tasks with their options and data sets."""
    from harness.cli.tasks import list_tasks

    list_tasks()


def backends() -> None:
    """List the backends with their options, and the presets."""
    from harness.cli.backends import list_backends

    list_backends()


def prices(
    wanted: Annotated[
        str, typer.Argument(metavar="FILTER", help="Part of a host's or a model's name.")
    ] = "",
) -> None:
    """List what models cost, with the day and the page that each price is from."""
    from harness.cli.prices import list_prices

    list_prices(wanted)


def doctor(
    no_network: Annotated[
        bool, typer.Option("--no-network", help="Ask no server whether it answers.")
    ] = False,
) -> None:
    """Check installation, keys, servers, data and folders."""
    from harness.cli.doctor import check_up

    raise typer.Exit(check_up(network=not no_network))
