"""`harness build collie` and `harness build audit`: a benchmark from one's own text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.builders.collie.audit import Audited


def collie(
    source: Annotated[
        list[str],
        typer.Option(
            metavar="SOURCE",
            help="A folder or file of text, NAME=PATH, a file of YAML, wiki or ccnews; repeatable.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    structures: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STRUCTURE",
            help="A structure of the paper, all of them (paper), or a file or folder of YAML; "
            "repeatable. By default those of the paper for which the sources have texts.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed makes the same bytes.", min=0, max=2**63 - 1)
    ] = 0,
    targets: Annotated[
        int, typer.Option(help="Most instances of a structure from one source.", min=1)
    ] = 100,
    documents: Annotated[
        int | None,
        typer.Option(help="Most documents of a source; by default what it says, or 300.", min=1),
    ] = None,
    strings: Annotated[
        int | None,
        typer.Option(
            help="Most texts of a level from one document; by default what its source says, or "
            "100.",
            min=1,
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; by default as many as there are cores.", min=1)
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Print the report, which is written in any case.")
    ] = False,
) -> None:
    """Make instances of constraint structures from text, each with a natural answer."""
    import sys
    from time import perf_counter

    from rich.text import Text

    from harness.builders.collie import INSTANCES, Recipe, build
    from harness.builders.collie.source import find_source
    from harness.builders.collie.structure import PAPER, find_structures
    from harness.builders.workers import cores
    from harness.cli.console import messages
    from harness.config.settings import Settings
    from harness.datasets.folder import DataFolder

    began = perf_counter()
    changes = {"documents": documents, "strings": strings}
    given = {key: value for key, value in changes.items() if value is not None}
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
            said = f"Without {names}: no source has texts of the level {levels}{remedy}"
            messages.print(Text(said), soft_wrap=True)
    with messages.status("Reading") as status:
        built = build(
            Recipe(found, sources, seed, targets),
            out,
            DataFolder(Settings().data_dir),
            jobs=jobs or cores(),
            status=lambda said: status.update(Text(said)),
        )
    if report:
        sys.stdout.write(built.report)
    for name, counts in built.facts["counts"].items():
        told = ", ".join(f"{count:,} from {of}" for of, count in counts.items())
        messages.print(Text(f"{name}: {told}"), soft_wrap=True)
    for structure in found:
        if structure.name not in built.facts["counts"]:
            messages.print(Text(f"{structure.name}: no text suits it"), soft_wrap=True)
    for about in built.facts["sources"]:
        if about["unreadable"]:
            told = f"{about['name']}: {about['unreadable']:,} of {about['chosen']:,} documents "
            messages.print(Text(f"{told}cannot be read (report.md)"), soft_wrap=True)
    resumed = f", {built.resumed} stages of an earlier build" if built.resumed else ""
    messages.print(
        Text(f"{built.instances:,} instances in {out}, {perf_counter() - began:.1f} s{resumed}"),
        soft_wrap=True,
    )
    messages.print(Text(f"Run them with task.dataset={out / INSTANCES}"), soft_wrap=True)


def audit(
    dataset: Annotated[
        Path, typer.Argument(help="A data set in COLLIE's form, JSONL or YAML.", metavar="FILE")
    ],
    jobs: Annotated[
        int | None, typer.Option(help="Processes; by default as many as there are cores.", min=1)
    ] = None,
) -> None:
    """Check a data set: does each gold answer pass, and is no constraint contradictory or trivial?

    Ends with 1 where a gold answer fails or a constraint contradicts itself.
    """
    from harness.builders.collie.audit import audit_items
    from harness.builders.workers import Workers, cores
    from harness.cli.console import messages
    from harness.config.settings import Settings
    from harness.datasets.folder import DataFolder
    from harness.tasks.collie.items import read_items

    data = DataFolder(Settings().data_dir)
    with messages.status("Auditing"), Workers(jobs or cores()) as workers:
        items = read_items(data.file(str(dataset)))
        found = audit_items(items, data.root / "nltk_data", workers)
    raise typer.Exit(_show(found))


def _show(found: Sequence[Audited]) -> int:
    """Print what was found; the command's exit code."""
    from rich.text import Text

    from harness.cli.console import output

    wrong = 0
    for one in found:
        said = ["the gold answer fails"] if one.passes is False else []
        said += one.problems
        said += [f"nothing breaks: {part}" for part in one.unbroken]
        said += [f"asks the same as {one.same_as}, with the same answer"] if one.same_as else []
        if one.trivial:
            said.append(f"trivial: {one.share:.0%} of {one.natural} natural texts pass")
        wrong += one.passes is False or any(p.startswith("contradictory") for p in one.problems)
        for line in said:
            output.print(Text(f"{one.id}: {line}"), soft_wrap=True)
    passing = sum(one.passes is True for one in found)
    gold = sum(one.passes is not None for one in found)
    output.print(
        Text(
            f"{len(found):,} instances: {passing:,} of {gold:,} gold answers pass, "
            f"{sum(len(one.near_misses) for one in found):,} near misses fail, "
            f"{sum(bool(one.unbroken) for one in found):,} have a part that nothing breaks, "
            f"{sum(bool(one.problems) for one in found):,} have problems, "
            f"{sum(one.trivial for one in found):,} are trivial."
        ),
        soft_wrap=True,
    )
    return 1 if wrong else 0
