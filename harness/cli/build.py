"""`harness build`: new benchmarks from a seed, a corpus or chat logs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.text import Text

from harness.builders.concodeeval import build as make
from harness.cli import SETTINGS
from harness.cli.build_collie import audit, collie
from harness.cli.build_wildifeval import wildifeval
from harness.cli.console import messages

build = typer.Typer(no_args_is_help=True, help="Build your own benchmark.", **SETTINGS)


class VocabularyChoice(StrEnum):
    """The keywords that the schemas use."""

    paper = "paper"
    extended = "extended"


@build.callback()
def _group() -> None:
    pass


@build.command("concodeeval")
def concodeeval(
    out: Annotated[Path, typer.Option(help="Output folder.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    vocabulary: Annotated[
        VocabularyChoice, typer.Option(help="Keywords: the paper's, or more of JSON Schema.")
    ] = VocabularyChoice.paper,
) -> None:
    """Build JSON schemas, and instances that are valid or violate exactly one keyword."""
    began = perf_counter()
    built = make(seed, out, vocabulary=vocabulary.value)
    for what, counts in built.items():
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        messages.print(Text(f"{what}: {listed}"), soft_wrap=True)
    messages.print(Text(f"Written to {out} in {perf_counter() - began:.1f} s"), soft_wrap=True)


build.command("collie")(collie)
build.command("audit")(audit)
build.command("wildifeval")(wildifeval)
