"""`harness build`: new benchmarks from a seed, a corpus or chat logs."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Literal

import typer

from harness.builders.concodeeval import build as make
from harness.cli import SETTINGS
from harness.cli.build_collie import audit, collie
from harness.cli.build_wildifeval import wildifeval
from harness.cli.console import say
from harness.cli.options import Out

build = typer.Typer(no_args_is_help=True, help="Build your own benchmark.", **SETTINGS)


@build.command("concodeeval")
def concodeeval(
    out: Out,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    vocabulary: Annotated[
        Literal["paper", "extended"],
        typer.Option(help="Keywords: the paper's, or more of JSON Schema."),
    ] = "paper",
) -> None:
    """Build JSON schemas, and instances that are valid or violate exactly one keyword."""
    began = perf_counter()
    built = make(seed, out, vocabulary=vocabulary)
    for what, counts in built.items():
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        say(f"{what}: {listed}")
    say(f"Written to {out} in {perf_counter() - began:.1f} s")


build.command("collie")(collie)
build.command("audit")(audit)
build.command("wildifeval")(wildifeval)
