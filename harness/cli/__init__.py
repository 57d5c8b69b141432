"""The command line: one file per verb, each thin; heavy imports wait until a verb runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.mock import mock

app = typer.Typer(
    name="harness",
    help="Evaluate language models on instruction following and constrained generation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=True,
)


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(help="The run file (YAML).")],
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--override", metavar="KEY.PATH=VALUE", help="Override a key."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Only so many instances, taken round the groups.", min=1)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The run's name; by default that of the file.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew beside an earlier run of this name.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
) -> None:
    """Run a run file, or continue it where it was interrupted."""
    from harness.cli.run import run_file

    raise typer.Exit(run_file(file, option or [], limit, name, fresh=fresh, dry_run=dry_run))


@app.command("ls")
def ls() -> None:
    """List the runs."""
    from harness.cli.ls import list_runs

    list_runs()


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(help="A run's name, or its folder.")],
    instance: Annotated[
        str | None, typer.Option(help="Show the attempts of one instance in full.")
    ] = None,
) -> None:
    """Show a run's metrics, or every attempt of one instance."""
    from harness.cli.show import show_instance, show_run

    if instance is None:
        show_run(run)
    else:
        show_instance(run, instance)


app.command("mock")(mock)


def main() -> None:
    """Entry point: a user's mistake is a message, never a traceback."""
    from harness.errors import HarnessError

    try:
        app()
    except HarnessError as error:
        print(f"harness: {error.message}", file=sys.stderr)  # noqa: T201
        if error.remedy:
            print(f"  {error.remedy}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
