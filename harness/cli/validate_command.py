"""`harness judge validate RUN …`, a command within `harness judge RUN …`.

A run that is called ``validate`` is judged by its folder's path: ``harness judge runs/validate``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from harness.cli.completion import run_names

WORD = "validate"

_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class JudgeCommand(TyperCommand):
    """`harness judge`, which gives way to `harness judge validate` where that is its first word."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:  # a class that typer keeps to itself
        """The context of the command that is meant; its command is run."""
        if args[:1] == [WORD]:
            command = typer.main.get_command(_app)
            return command.make_context(f"{info_name} {WORD}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def judge_words(incomplete: str) -> list[str]:
    """What may stand after `harness judge`, and begins so."""
    return [*run_names(incomplete), *(word for word in [WORD] if word.startswith(incomplete))]


@_app.command(WORD)
def _validate(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs of one task; of several, how alike both sides rank them is shown, too.",
            autocompletion=run_names,
        ),
    ],
    judge: Annotated[
        str,
        typer.Option(metavar="NAME", help="Its name in the runs; by default the only one."),
    ] = "",
    against: Annotated[
        str,
        typer.Option(
            metavar="REFERENCE",
            help="Another judge of the runs, a file of people's labels (….jsonl), or 'rules': "
            "rule checkers, where they decide on a criterion; by default the only other judge.",
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option(metavar="LABEL", help="The criteria by their groups, too, as in category."),
    ] = "",
    form: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the calibration curve: .svg, .png or .pdf."),
    ] = None,
) -> None:
    """How far is a judge to be believed? Its verdicts against a reference's.

    Accuracy, Cohen's kappa, confusion, calibration, and how alike both rank several runs. What one
    side alone has judged is counted and left out; an abstention is no no.
    """
    from harness.cli.validate import ValidationAsked, show_validation

    show_validation(runs, ValidationAsked(judge, against, by), form, figure)
