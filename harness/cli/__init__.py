"""The command line: one file per verb, each thin; heavy imports wait until a verb runs."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.build import build
from harness.cli.cache import cache
from harness.cli.completion import run_files, run_names
from harness.cli.data import data
from harness.cli.describe import describe
from harness.cli.mock import mock
from harness.cli.validate_command import JudgeCommand, judge_words

app = typer.Typer(
    name="harness",
    help="Evaluate language models on instruction following and constrained generation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("harness"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("run")
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


@app.command("ls")
def ls() -> None:
    """List the runs."""
    from harness.cli.ls import list_runs

    list_runs()


@app.command("show")
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


@app.command("compare")
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
    from harness.analysis.run_comparison import Asked
    from harness.cli.compare import show_comparison

    show_comparison(
        runs,
        Asked(score=score, round=round_, by=by, cluster=cluster),
        baseline=baseline,
        form=form,
        ids=ids,
        constraints=constraints,
        cost=cost,
    )


@app.command("table")
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
    from harness.analysis.table_figures import TableAsked
    from harness.cli.table import show_table

    show_table(runs, TableAsked(rows=rows, columns=columns, scores=score or [], round=round_), form)


@app.command("matrix")
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


@app.command("report")
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
    from harness.analysis.run_comparison import Asked
    from harness.cli.report import write_report

    write_report(
        runs,
        output=output,
        title=title,
        asked=Asked(score="", round=round_, by=by),
        baseline=baseline,
        most_attempts=attempts,
        images=images,
        form=form,
    )


@app.command("ablation")
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


@app.command("score")
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


@app.command("judge", cls=JudgeCommand)
def judge(
    run: Annotated[
        str, typer.Argument(help="A run's name, or its folder.", autocompletion=judge_words)
    ],
    judge: Annotated[
        str,
        typer.Option(
            metavar="FILE.yaml",
            help="A judge's section, as in a run file's judges:; or the name of one it has had.",
        ),
    ],
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="USD", min=0, help="What the run may cost with it; by default its own budget."
        ),
    ] = None,
    retry: Annotated[
        str,
        typer.Option(
            metavar="OUTCOMES",
            help="Ask again where its replies held no verdict: unparseable, refused, empty, with "
            "commas between. Failed calls are always made again.",
        ),
    ] = "",
    gold: Annotated[
        bool,
        typer.Option(
            "--gold",
            help="Judge the gold answers to the run's instances, apart from the run's own.",
        ),
    ] = False,
) -> None:
    """Put a run's answers before one more judge; run again, only what is missing is judged.

    Writes judgements.jsonl beside the attempts: its scores stand beside the run's, and what passed
    stays as it was. Those of gold answers (--gold) are in the folder gold/, never among the run's,
    and 'harness show' tells how the run's answers differ from them. Ends with 0 where all is done,
    1 where calls failed, 3 where the budget is spent, 130 where it was interrupted.

    How far a judge is to be believed says 'harness judge validate': see its --help.
    """
    from harness.cli.judge import judge_run

    raise typer.Exit(judge_run(run, judge, budget=budget, golds=gold, retry=retry))


@app.command("tasks")
def tasks() -> None:
    """List the tasks with their options and data sets."""
    from harness.cli.tasks import list_tasks

    list_tasks()


@app.command("backends")
def backends() -> None:
    """List the backends with their options, and the presets."""
    from harness.cli.backends import list_backends

    list_backends()


@app.command("prices")
def prices(
    wanted: Annotated[
        str, typer.Argument(metavar="FILTER", help="Part of a host's or a model's name.")
    ] = "",
) -> None:
    """List what models cost, with the day and the page that each price is from."""
    from harness.cli.prices import list_prices

    list_prices(wanted)


@app.command("doctor")
def doctor(
    no_network: Annotated[
        bool, typer.Option("--no-network", help="Ask no server whether it answers.")
    ] = False,
) -> None:
    """Check installation, keys, servers, data and folders."""
    from harness.cli.doctor import check_up

    raise typer.Exit(check_up(network=not no_network))


@app.command("export")
def export(
    runs: Annotated[
        list[str],
        typer.Argument(help="Runs; inspect and lm-eval take one.", autocompletion=run_names),
    ],
    file: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A file there is replaced; - writes CSV to stdout.",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="parquet, csv, inspect or lm-eval; by default what FILE ends with."
        ),
    ] = "",
) -> None:
    """Write runs as a table, or a run as an Inspect log or as lm-eval's samples."""
    from harness.cli.export import export_runs

    export_runs(runs, form, file)


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="An Inspect log (.eval, .json) or lm-eval's samples (.jsonl).")
    ],
    form: Annotated[
        str, typer.Option("--format", help="inspect or lm-eval; by default what the file holds.")
    ] = "",
    name: Annotated[str, typer.Option(help="The run's name; by default that of the file.")] = "",
    task: Annotated[str, typer.Option(help="The task's name; by default what the file says.")] = "",
    score: Annotated[
        str, typer.Option(help="The score that says what passed; by default the file's first.")
    ] = "",
) -> None:
    """Make a run of another tool's results, to show and to compare like any other."""
    from harness.cli.import_ import import_file

    import_file(file, form, name=name, task=task, score=score)


app.add_typer(build, name="build")
app.add_typer(cache, name="cache")
app.command("mock")(mock)
data.command("describe")(describe)
app.add_typer(data, name="data")


def main() -> None:
    """Entry point: a user's mistake is a message, never a traceback."""
    from harness.errors import HarnessError

    _mend_streams()
    try:
        app()
    except HarnessError as error:
        print(f"harness: {error.message}", file=sys.stderr)  # noqa: T201
        if error.remedy:
            print(f"  {error.remedy}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"harness: Cannot write the output: {error.strerror}.", file=sys.stderr)  # noqa: T201
        sys.exit(1)


def _mend_streams() -> None:
    """Output must not fail for what it is written to.

    A closed stream is opened on nothing: a file of ours would get its number
    and be written to. A character that the terminal's encoding lacks is a ?.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
