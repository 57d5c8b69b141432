"""What sets runs beside each other: `compare`, `table`, `matrix`, `report`, `ablation`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import run_names


def compare(
    runs: Annotated[list[str], typer.Argument(help="Two runs or more.", autocompletion=run_names)],
    baseline: Annotated[
        str, typer.Option(metavar="RUN", help="Compare with it; by default the first one.")
    ] = "",
    by: Annotated[
        str, typer.Option(metavar="LABEL", help="Compare the groups of a label, too.")
    ] = "",
    score: Annotated[
        str,
        typer.Option(
            "--score",
            "--metric",
            help="By default what the task is measured by, else pass_rate.",
        ),
    ] = "",
    round_: Annotated[
        int | None, typer.Option("--round", min=1, help="By default each sample's last one.")
    ] = None,
    cluster: Annotated[
        str, typer.Option(metavar="LABEL", help="The statistical unit; by default the prompt.")
    ] = "",
    form: Annotated[
        str, typer.Option("--format", help="table, markdown, latex, csv or json.")
    ] = "table",
    ids: Annotated[
        bool, typer.Option("--ids", help="List the instances in which a run is better, and worse.")
    ] = False,
    constraints: Annotated[
        bool,
        typer.Option(
            "--constraints", help="What a run fixed and broke, by kind of base constraint."
        ),
    ] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="What the runs took: calls, tokens, seconds, money.")
    ] = False,
) -> None:
    """Compare runs instance by instance: difference, interval, p, and what got better and worse."""
    from harness.analysis.run_comparison import ComparisonOptions
    from harness.cli.compare import show_comparison

    show_comparison(
        runs,
        ComparisonOptions(score=score, round=round_, by=by, cluster=cluster),
        baseline=baseline,
        form=form,
        ids=ids,
        constraints=constraints,
        cost=cost,
    )


def table(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs; a run file's name means all of its variants.", autocompletion=run_names
        ),
    ],
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Its groups are the rows of a model; '' for one row. By default as the task's "
            "paper has it.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Its groups are columns; '' for none. By default as the task's paper has it.",
        ),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A score, pass_rate, or a figure of the paper's table; may be repeated.",
        ),
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=1, help="By default each sample's last one.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="table, markdown, latex, csv or json.")
    ] = "table",
) -> None:
    """Show several runs as a paper's results table: a row per model and group."""
    from harness.analysis.table_layout import TableOptions
    from harness.cli.table import show_table

    show_table(
        runs, TableOptions(rows=rows, columns=columns, scores=score or [], round=round_), form
    )


def matrix(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Two runs or more; a run file's name means all of its variants.",
            autocompletion=run_names,
        ),
    ],
    score: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="By default what the task is measured by, else pass_rate."
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option(
            metavar="LABEL",
            help="How its groups rank the runs; of the instances, or of the constraints that a "
            "judge has judged, such as category.",
        ),
    ] = "",
    external: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Published scores (CSV or JSONL: model, score), ranked as well."
        ),
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=1, help="By default each sample's last one.")
    ] = None,
    cluster: Annotated[
        str, typer.Option(metavar="LABEL", help="The statistical unit; by default the prompt.")
    ] = "",
    form: Annotated[
        str, typer.Option("--format", help="table, markdown, latex, csv or json.")
    ] = "table",
) -> None:
    """Test every pair of runs, and show how alike groups and published scores rank them."""
    from harness.cli.matrix import MatrixAsked, show_matrix

    show_matrix(runs, MatrixAsked(score, by, external, round_, cluster), form)


def report(
    runs: Annotated[
        list[str], typer.Argument(help="One run, or several of one task.", autocompletion=run_names)
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file; by default report.html in a run's folder."),
    ] = None,
    title: Annotated[str, typer.Option(help="By default the names of the runs.")] = "",
    baseline: Annotated[
        str, typer.Option(metavar="RUN", help="Compare with it; by default the first one.")
    ] = "",
    by: Annotated[
        str, typer.Option(metavar="LABEL", help="Compare its groups; by default the first label's.")
    ] = "",
    round_: Annotated[
        int | None,
        typer.Option("--round", min=1, help="Compare it; by default each sample's last one."),
    ] = None,
    attempts: Annotated[
        int,
        typer.Option(
            min=0, help="Attempts of each run to look at in the report; whole instances, by chance."
        ),
    ] = 50_000,
    images: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the pictures as files, too; without -o alone."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="Of pictures: svg, png or pdf.")] = "svg",
) -> None:
    """Write a report to look at: one HTML file that works offline, and its pictures as files."""
    from harness.analysis.run_comparison import ComparisonOptions
    from harness.cli.report import write_report

    write_report(
        runs,
        output=output,
        title=title,
        asked=ComparisonOptions(score="", round=round_, by=by),
        baseline=baseline,
        most_attempts=attempts,
        images=images,
        form=form,
    )


def ablation(
    name: Annotated[
        str, typer.Argument(help="The run file's name: its variants' runs are NAME.VARIANT.")
    ],
    baseline: Annotated[
        str, typer.Option(metavar="VARIANT", help="Compare with it; by default the first one.")
    ] = "",
    over: Annotated[
        str,
        typer.Option(
            metavar="LABEL",
            help="Average and pair over its groups; by default the first label of all the runs.",
        ),
    ] = "",
    score: Annotated[
        str,
        typer.Option(help="By default what the task is measured by, else pass_rate."),
    ] = "",
    by: Annotated[
        str, typer.Option(metavar="LABEL", help="Gains by its groups, too, such as category.")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="table, markdown, csv or json.")] = "table",
) -> None:
    """Show what the variants of a run file gain over one of them, and which claims hold."""
    from harness.cli.ablation import show_ablation

    show_ablation(name, baseline=baseline, over=over, score=score, by=by, form=form)
