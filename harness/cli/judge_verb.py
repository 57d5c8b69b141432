"""`judge`: one more judge for a run; `harness.cli.validate_command` is within it."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.validate_command import judge_words


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
