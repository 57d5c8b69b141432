"""`harness build collie` and `harness build audit`: a benchmark from your own text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.text import Text

from harness.builders.collie import INSTANCES, Recipe, build
from harness.builders.collie.audit import Audited, audit_items
from harness.builders.collie.source import find_source
from harness.builders.collie.structure import PAPER, find_structures
from harness.builders.workers import Workers, cores
from harness.cli.console import ExactOutput, messages, say, write
from harness.cli.options import Jobs, Out, Report
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.tasks.collie import read_items


def collie(
    source: Annotated[
        list[str],
        typer.Option(
            metavar="SOURCE",
            help="A text file or folder, NAME=PATH, a YAML file, wiki or ccnews; repeatable.",
        ),
    ],
    out: Out,
    structures: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STRUCTURE",
            help="A structure of the paper, 'paper' for all, or a YAML file or folder; repeatable "
            "(default: those of the paper that the sources have texts for).",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same files.", min=0, max=2**63 - 1)
    ] = 0,
    targets: Annotated[
        int, typer.Option(help="Maximum instances per structure and source.", min=1)
    ] = 100,
    documents: Annotated[
        int | None,
        typer.Option(
            help="Maximum documents per source (default: the source's setting, or 300).", min=1
        ),
    ] = None,
    strings: Annotated[
        int | None,
        typer.Option(
            help="Maximum texts per level and document (default: the source's setting, or 100).",
            min=1,
        ),
    ] = None,
    jobs: Jobs = None,
    report: Report = False,
) -> None:
    """Build instances of constraint structures from text, each with a natural reference answer."""
    began = perf_counter()
    given = {"documents": documents, "strings": strings}
    given = {key: value for key, value in given.items() if value is not None}
    sources = [find_source(one, given) for one in source]
    found = find_structures(structures or [PAPER])
    if not structures:
        available = {level for one in sources for level in one.levels}
        left_out = [one for one in found if one.level not in available]
        found = [one for one in found if one.level in available]
        if left_out:
            names = ", ".join(one.name for one in left_out)
            levels = " or ".join(sorted({one.level for one in left_out}))
            remedy = ": --source words=FILE adds them" if levels == "word" else ""
            say(f"Skipped {names}: no source has texts of the level {levels}{remedy}")
    with messages.status("Reading") as status:
        built = build(
            Recipe(found, sources, seed, targets),
            out,
            DataFolder(Settings().data_dir),
            jobs=jobs or cores(),
            status=lambda said: status.update(Text(said)),
        )
    if report:
        ExactOutput().write(built.report)
    for name, counts in built.facts["counts"].items():
        listed = ", ".join(f"{count:,} from {of}" for of, count in counts.items())
        say(f"{name}: {listed}")
    for structure in found:
        if structure.name not in built.facts["counts"]:
            say(f"{structure.name}: no suitable text")
    for about in built.facts["sources"]:
        if about["unreadable"]:
            listed = f"{about['unreadable']:,} of {about['chosen']:,} documents"
            say(f"{about['name']}: {listed} cannot be read (report.md)")
    resumed = f", {built.resumed} stages of an earlier build" if built.resumed else ""
    say(f"{built.instances:,} instances in {out}, {perf_counter() - began:.1f} s{resumed}")
    say(f"To run them: task.dataset={out / INSTANCES}")


def audit(
    dataset: Annotated[
        Path, typer.Argument(help="A data set in COLLIE's format, JSONL or YAML.", metavar="FILE")
    ],
    jobs: Jobs = None,
) -> None:
    """Check that reference answers pass and that no constraint is contradictory or trivial.

    The exit code is 1 if a reference answer fails or a constraint contradicts itself.
    """
    data = DataFolder(Settings().data_dir)
    with messages.status("Auditing"), Workers(jobs or cores()) as workers:
        items = read_items(data.file(str(dataset)))
        found = audit_items(items, data.root / "nltk_data", workers)
    raise typer.Exit(_show(found))


def _show(found: Sequence[Audited]) -> int:
    """Print the findings; return the exit code."""
    wrong = 0
    for one in found:
        said = ["the reference answer fails"] if one.passes is False else []
        said += one.problems
        said += [f"no near miss violates: {part}" for part in one.unbroken]
        said += [f"duplicates {one.same_as}"] if one.same_as else []
        if one.trivial:
            said.append(f"trivial: {one.share:.0%} of {one.natural} natural texts pass")
        wrong += one.passes is False or any(p.startswith("contradictory") for p in one.problems)
        for line in said:
            write(f"{one.id}: {line}")
    passing = sum(one.passes is True for one in found)
    gold = sum(one.passes is not None for one in found)
    write(
        f"{len(found):,} instances: {passing:,} of {gold:,} reference answers pass, "
        f"{sum(len(one.near_misses) for one in found):,} near misses fail, "
        f"{sum(bool(one.unbroken) for one in found):,} have a part that no near miss violates, "
        f"{sum(bool(one.problems) for one in found):,} have problems, "
        f"{sum(one.trivial for one in found):,} are trivial."
    )
    return 1 if wrong else 0
