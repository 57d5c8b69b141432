"""`harness build`: benchmarks made anew, from a seed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.build_collie import audit, collie
from harness.cli.build_wildifeval import wildifeval

build = typer.Typer(no_args_is_help=True, help="Make a benchmark of your own.")


class Vocabulary(StrEnum):
    """Which keywords the schemas have."""

    paper = "paper"
    extended = "extended"


@build.callback()
def _group() -> None:
    pass


@build.command("concodeeval")
def concodeeval(
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    seed: Annotated[int, typer.Option(help="The same seed makes the same bytes.")] = 0,
    vocabulary: Annotated[
        Vocabulary, typer.Option(help="The paper's keywords, or more of JSON Schema's.")
    ] = Vocabulary.paper,
) -> None:
    """Make JSON schemas, and instances that obey them or break just one keyword."""
    from time import perf_counter

    from rich.text import Text

    from harness.builders.concodeeval import build as make
    from harness.cli.console import messages

    began = perf_counter()
    built = make(seed, out, vocabulary=vocabulary.value)
    for what, counts in built.items():
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        messages.print(Text(f"{what}: {told}"), soft_wrap=True)
    messages.print(Text(f"In {out}, {perf_counter() - began:.1f} s"), soft_wrap=True)


build.command("collie")(collie)
build.command("audit")(audit)
build.command("wildifeval")(wildifeval)
