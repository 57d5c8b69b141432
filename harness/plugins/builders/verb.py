"""`harness build`: new benchmarks from a seed, your own text, or chat logs."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

import typer
from rich.text import Text

from harness.cli.options import Jobs, Limit, Overrides
from harness.cli.run import print_early_end, run_with_display
from harness.cli.verbs import VerbGroup
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.engine.models import Resources
from harness.plugins.benchmarks.collie.task import read_items
from harness.plugins.builders import collie as collie_builder
from harness.plugins.builders import concodeeval as concodeeval_builder
from harness.plugins.builders.collie.audit import Audited, audit_items
from harness.plugins.builders.collie.source import Source, find_source
from harness.plugins.builders.collie.structure import PAPER, Structure, find_structures
from harness.plugins.builders.wildifeval import (
    TASKS,
    CurationJob,
    curate,
    estimate_curation,
    prepare_curation,
)
from harness.plugins.builders.wildifeval.curation_file import AUTHORS_PROMPTS, load_curation
from harness.plugins.builders.wildifeval.pipeline import StageEstimate
from harness.plugins.data.fetch import fetch_prompts
from harness.report.table import Cell, Column, table
from harness.report.text import escape_unprintable, format_usd
from harness.terminal.console import ExactOutput, messages, say, show, write
from harness.terminal.display import Display
from harness.workers import Workers, available_cores

LIKELY = 0.5  # minimum probability of yes for a model's answer to count as yes

Out = Annotated[Path, typer.Option("--output", metavar="FOLDER", help="Output folder.")]
Report = Annotated[bool, typer.Option("--report", help="Also print the report.")]

build = VerbGroup("build")


@build.verb("concodeeval")
def concodeeval(
    out: Out, seed: int = 0, vocabulary: Literal["paper", "extended"] = "paper"
) -> None:
    """Build JSON schemas, and instances that are valid or violate exactly one keyword.

    Args:
        seed: Random seed; the same seed gives the same files.
        vocabulary: The keywords to use: the paper's, or more keywords of JSON Schema.
    """
    began = perf_counter()
    built = concodeeval_builder.build(seed, out, vocabulary=vocabulary)
    for what, counts in built.items():
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        say(f"{what}: {listed}")
    say(f"Written to {out} in {perf_counter() - began:.1f} s")


@build.verb("collie")
def collie(
    source: Annotated[list[str], typer.Option(metavar="SOURCE")],
    out: Out,
    structures: Annotated[list[str] | None, typer.Option(metavar="STRUCTURE")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1)] = 0,
    targets: Annotated[int, typer.Option(min=1)] = 100,
    documents: Limit = None,
    jobs: Jobs = None,
    report: Report = False,
) -> None:
    """Build instances of constraint structures from text, each with a natural reference answer.

    Args:
        source: A file or folder, NAME=PATH, or a YAML file; repeatable.
        structures: A structure of the paper, 'paper' for all, or a YAML file or folder; repeatable
            (default: those of the paper that the sources have texts for).
        seed: Random seed; the same seed gives the same files.
        targets: Maximum instances per structure and source.
        documents: Maximum documents per source (default: the source's setting, or 300).
    """
    began = perf_counter()
    changes = {} if documents is None else {"documents": documents}
    sources = [find_source(place, changes) for place in source]
    chosen = find_structures(structures or [PAPER])
    if not structures:
        chosen = _suitable(chosen, sources)
    with messages.status("Reading") as status:
        built = collie_builder.build(
            collie_builder.Recipe(chosen, sources, seed, targets),
            out,
            DataFolder(Settings().data_dir),
            jobs=jobs or available_cores(),
            status=lambda message: status.update(Text(message)),
        )
    if report:
        ExactOutput().write(built.report)
    for structure in chosen:
        counts = built.facts["counts"].get(structure.name, {})
        listed = ", ".join(f"{count:,} from {source_name}" for source_name, count in counts.items())
        say(f"{structure.name}: {listed or 'no suitable text'}")
    for about in built.facts["sources"]:
        if about["unreadable"]:
            listed = f"{about['unreadable']:,} of {about['chosen']:,} documents"
            say(f"{about['name']}: {listed} cannot be read (report.md)")
    summary = f"{built.instances:,} instances in {out}, {perf_counter() - began:.1f} s"
    if built.resumed:
        summary += f", {built.resumed} stages of an earlier build"
    say(summary)
    say(f"To run them: task.dataset={out / collie_builder.INSTANCES}")


def _suitable(structures: Sequence[Structure], sources: Sequence[Source]) -> list[Structure]:
    """Return the structures for which a source has texts, and report the others."""
    levels = set().union(*(source.levels for source in sources))
    suitable = [structure for structure in structures if structure.level in levels]
    skipped = [structure for structure in structures if structure.level not in levels]
    if skipped:
        names = ", ".join(structure.name for structure in skipped)
        missing = " or ".join(sorted({structure.level for structure in skipped}))
        remedy = ": --source words=FILE adds them" if missing == "word" else ""
        say(f"Skipped {names}: no source has texts of the level {missing}{remedy}")
    return suitable


@build.verb("audit")
def audit(dataset: Annotated[Path, typer.Argument(metavar="FILE")], jobs: Jobs = None) -> None:
    """Check that reference answers pass, and that no constraint is contradictory or trivial.

    The exit code is 1 if a reference answer fails or a constraint contradicts itself.

    Args:
        dataset: A data set in COLLIE's format, JSONL or YAML.
    """
    data = DataFolder(Settings().data_dir)
    with messages.status("Auditing"), Workers(jobs or available_cores()) as workers:
        items = read_items(data.file(str(dataset)))
        findings = audit_items(items, data.root / "nltk_data", workers)
    raise typer.Exit(_show_audit(findings))


def _show_audit(findings: Sequence[Audited]) -> int:
    n_wrong = 0
    for item in findings:
        lines = []
        if item.passes is False:
            lines.append("the reference answer fails")
        lines += item.problems
        lines += [f"no near miss violates: {part}" for part in item.unbroken]
        if item.same_as:
            lines.append(f"duplicates {item.same_as}")
        if item.trivial:
            lines.append(f"trivial: {item.share:.0%} of {item.natural} natural texts pass")
        for line in lines:
            write(f"{item.id}: {line}")
        contradicts = any(problem.startswith("contradictory") for problem in item.problems)
        n_wrong += item.passes is False or contradicts
    passing = [item.passes for item in findings if item.passes is not None]
    n_near_misses = sum(len(item.near_misses) for item in findings)
    n_unbroken = sum(bool(item.unbroken) for item in findings)
    n_problems = sum(bool(item.problems) for item in findings)
    n_trivial = sum(item.trivial for item in findings)
    write(
        f"{len(findings):,} instances: {sum(passing):,} of {len(passing):,} reference answers "
        f"pass, {n_near_misses:,} near misses fail, {n_unbroken:,} have a part that no near miss "
        f"violates, {n_problems:,} have problems, {n_trivial:,} are trivial."
    )
    return 1 if n_wrong else 0


@build.verb("wildifeval")
def wildifeval(
    chats: Annotated[list[Path], typer.Option("--from", metavar="PATH")],
    out: Out,
    config: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    overrides: Overrides = None,
    dry_run: bool = False,
    report: Report = False,
) -> None:
    """Build a data set in WildIFEval's format from the first messages of chats.

    Repeat the command to resume an interrupted build. Exit codes: 0 finished, 1 failed or some
    calls failed, 3 the budget is spent, 130 interrupted.

    Args:
        chats: A chat log: a file or folder of JSONL or Parquet; repeatable.
        config: A curation file with models and settings.
        overrides: Set a key of the curation file; repeatable.
        dry_run: Print the calls and their estimated cost without making any.
    """
    curation = load_curation(config, overrides or [])
    settings = Settings()
    if curation.by_authors:
        fetch_prompts([AUTHORS_PROMPTS], settings)
    job = prepare_curation(curation, chats, out, Resources(settings))
    if dry_run:
        _show_estimate(job, estimate_curation(job, say))
        return
    command = shlex.join(["harness", *sys.argv[1:]])
    display = Display({name: name for name in job.models})
    try:
        with display:
            end = run_with_display(curate(job, display.watch, say), display, command)
    finally:
        for stage, tally in display.tallies.items():
            say(f"{stage}: {tally.calls:,} calls, {tally.cached:,} from the cache")
    if end.built is None:
        raise typer.Exit(
            print_early_end(end.ended, end.budget, "budget.usd (-o budget.usd=…)", command)
        )
    if report:
        ExactOutput().write(end.built.report)
    for step in end.built.facts["steps"]:
        removed = ", ".join(f"{n:,} {reason}" for reason, n in step["removed"].items())
        left = f"{step['left']:,} of {step['before']:,} left"
        say(f"{step['name']}: {left} ({removed or 'none'} removed)")
    mark = end.built.facts["mark"]
    if mark < LIKELY:
        say(
            f"filter.keep={curation.filter.keep} keeps tasks down to a probability of "
            f"{mark:.2f}; set a lower share to keep only those the model is sure of."
        )
    if end.built.facts["simulated"]:
        say("The models were simulated: these are not real data.")
    say(f"{end.built.instances:,} tasks in {job.out}")
    say(f"To run them: task.dataset={job.out / TASKS}")


def _show_estimate(job: CurationJob, stages: Sequence[StageEstimate]) -> None:
    rows: list[list[object]] = []
    total: float | None = 0.0
    n_calls = 0
    for stage in stages:
        model = job.models[stage.stage]
        usage = stage.usage
        cost = model.price.cost(usage) if model.price else None
        total = None if cost is None or total is None else total + cost
        n_calls += stage.calls
        name = escape_unprintable(model.section.name or "-")
        tokens = (usage.input_tokens, usage.output_tokens)
        rows.append([stage.stage, name, stage.calls, *tokens, Cell(cost, format_usd(cost))])
    figures = ["max. calls", "tokens in (est.)", "tokens out (est.)", "cost (est.)"]
    show(table(["stage", Column("model", text=True), *figures], rows))
    bound = "an upper bound, if no stage removes a task and nothing is cached"
    write(f"At most {n_calls:,} calls, about {format_usd(total)}: {bound}.")
