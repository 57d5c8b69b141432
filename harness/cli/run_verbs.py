"""What makes runs, shows them, and scores them anew: `run`, `ls`, `show`, `score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import run_files, run_names


def run(
    file: Annotated[Path, typer.Argument(help="The run file (YAML).", autocompletion=run_files)],
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
        bool,
        typer.Option("--dry-run", help="Say what would be done, and its cost; do nothing."),
    ] = False,
    retry: Annotated[
        str,
        typer.Option(
            metavar="OUTCOMES",
            help="Make attempts with these outcomes again: error, truncated, refused, empty, "
            "unparseable, with commas between. Failed calls (error) are always made again.",
        ),
    ] = "",
) -> None:
    """Run a run file, or continue it where it was interrupted.

    Ends with 0 where all is done, 1 where it failed or attempts did, 3 where the budget is spent,
    130 where it was interrupted.
    """
    from harness.cli.run import run_file

    raise typer.Exit(
        run_file(file, option or [], limit, name, fresh=fresh, dry_run=dry_run, retry=retry)
    )


def ls() -> None:
    """List the runs."""
    from harness.cli.ls import list_runs

    list_runs()


def show(
    run: Annotated[
        str, typer.Argument(help="A run's name, or its folder.", autocompletion=run_names)
    ],
    instance: Annotated[
        str | None, typer.Option(help="Show the attempts of one instance in full.")
    ] = None,
    constraints: Annotated[
        bool,
        typer.Option("--constraints", help="Show which base constraints fail, and by how much."),
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="The constraints by its groups instead of their kind."),
    ] = None,
    rejected: Annotated[
        bool,
        typer.Option(
            "--rejected", help="Show which schemas (decoding.constraint) the provider rejected."
        ),
    ] = False,
    rules: Annotated[
        bool,
        typer.Option("--rules", help="Show how often judges and rules say the same, by rule."),
    ] = False,
) -> None:
    """Show a run's metrics, its base constraints, or every attempt of one instance."""
    from harness.cli.show import show_asked

    show_asked(
        run, instance=instance, constraints=constraints, by=by, rejected=rejected, rules=rules
    )


def score(
    run: Annotated[
        str, typer.Argument(help="A run's name, or its folder.", autocompletion=run_names)
    ],
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every verdict that has changed, not the first ten.")
    ] = False,
) -> None:
    """Score a run anew, with no model call, and say what has changed.

    Writes scores.jsonl beside the attempts. Ends with 0 where every verdict is the same, 3 where
    some have changed, 1 where it failed.
    """
    from harness.cli.score import score_run

    raise typer.Exit(score_run(run, show_all=show_all))
