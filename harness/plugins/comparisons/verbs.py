"""`harness ablation`, `matrix` and `table`: compare variants, every pair of runs, and models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from harness.cli.options import By, Cluster, Format, Round, Runs, Score
from harness.config.settings import Settings
from harness.engine.run_files import find_named_runs, find_named_variants
from harness.errors import ConfigError, suggest_name
from harness.plugins.comparisons.ablation import AblationOptions, ablate, findings
from harness.plugins.comparisons.comparable import read_run, refuse_unknown_label
from harness.plugins.comparisons.cross_table import TableOptions, cross_table
from harness.plugins.comparisons.cross_table_document import cross_table_document, suite_document
from harness.plugins.comparisons.documents import ablation_document, matrix_document
from harness.plugins.comparisons.judge_verdicts import judges_with_verdicts, read_judged
from harness.plugins.comparisons.pair_matrix import (
    JudgedTables,
    induced_rankings,
    pair_matrix,
    read_model_scores,
)
from harness.plugins.comparisons.suite import suite_of
from harness.plugins.comparisons.table_figures import MILLISECONDS, TOKENS, with_call_scores
from harness.report.table import Note, Table, TableDocument
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex, read_attempts
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name, run_path
from harness.terminal.console import say, show


def ablation(
    name: str,
    baseline: Annotated[str, typer.Option(metavar="VARIANT")] = "",
    over: Annotated[str, typer.Option(metavar="LABEL")] = "",
    score: Score = "",
    by: By = "",
    cluster: Annotated[str | None, typer.Option(metavar="LABEL")] = None,
    form: Format = "table",
) -> None:
    """How much does each variant of a run file gain over the baseline?

    Also shows which claims of the task's paper hold.

    Args:
        name: The run file's name; its variants' runs are NAME.VARIANT.
        baseline: Baseline variant (default: the first).
        over: Label whose groups are averaged (default: the first that all runs have).
        cluster: Label of the statistical unit, such as that of --over if its groups are a random
            sample; '' for the prompt (default: the prompt; for a task with claims, --over).
    """
    settings = Settings()
    prefix = run_name(run_path(settings.runs_dir, name).name, "?").removesuffix("?")
    folders = {}
    runs = []
    for run_folder in find_named_variants(name, settings):
        variant_name = run_folder.name.removeprefix(prefix)
        folders[variant_name] = run_folder
        runs.append(read_run(run_folder, variant_name, grouped=True, score=score))
    display = runs[0][0].display
    if display.missing:
        say(f"No claims: {display.missing}")
    if cluster is None and display.claims is None:
        cluster = ""
    options = AblationOptions(baseline=baseline, over=over, cluster=cluster, by=by)
    result = ablate(runs, options)
    if by:
        member = _members(folders[result.baseline], result.over, by)
        result = ablate(runs, replace(options, member=member))
    variants = [variant for variant, _ in runs]
    show(ablation_document(findings(variants, result)), form)


def _members(folder: RunFolder, over: str, by: str) -> dict[str, str]:
    """Return, for each group of the label ``over``, the one group of ``by`` that contains it."""
    attempts = read_attempts(folder.attempts)
    members: dict[str, str] = {}
    for groups in attempts.instances.groupings:
        if not (over in groups and by in groups):
            continue
        if members.setdefault(groups[over], groups[by]) != groups[by]:
            problem = f"The group {groups[over]!r} of {over!r} is in several of {by!r}."
            remedy = "Name a coarser label with --by, such as a task's category."
            raise ConfigError(problem, remedy)
    if not members:
        problem = f"The run {folder.name!r} has no groups of {by!r}."
        raise ConfigError(problem, suggest_name(by, attempts.labels()))
    return members


def matrix(
    runs: Runs,
    score: Score = "",
    by: Annotated[str, typer.Option(metavar="LABEL")] = "",
    external: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    round_: Round = None,
    cluster: Cluster = "",
    form: Format = "table",
) -> None:
    """Which pairs of runs differ, and do groups and published scores rank the runs alike?

    Tests every pair of runs. Runs of several benchmarks are tested benchmark by benchmark.

    Args:
        by: Also rank the runs within each group of this label of the instances, or of the
            constraints that a judge scored (such as category).
        external: Published scores to rank as well (CSV or JSONL: model, score).
    """
    scores = read_model_scores(external) if external else None
    folders = find_named_runs(runs, Settings())
    if len(folders) < 2 and not by:
        remedy = "Name two or more ('harness ls' lists them), or split it into groups with --by."
        raise ConfigError("Only one run was named.", remedy)
    of_task: dict[str, list[RunFolder]] = {}
    for folder in folders:
        of_task.setdefault(folder.read_config().task.label, []).append(folder)
    documents = {}
    for task, task_folders in of_task.items():
        read_runs = list(map(read_run, task_folders))
        pairs = pair_matrix(read_runs, score, round_=round_, cluster=cluster)
        rankings = None
        judged = None
        if by and not all(by in table.labels() for _, table in read_runs):
            tables = {variant.name: table for variant, table in read_runs}
            judged = _judged(task_folders, tables, by, round_, pairs.score)
        if by or scores is not None:
            rankings = induced_rankings(
                read_runs, score, by, judged=judged, external=scores, round_=round_
            )
        documents[task] = matrix_document(pairs, rankings)
    if len(documents) > 1:
        show(_joined(documents), form)
    else:
        show(documents.popitem()[1], form)


def _judged(
    folders: Sequence[RunFolder],
    tables: Mapping[str, AttemptTable],
    by: str,
    round_: int | None,
    score: str,
) -> JudgedTables:
    """Return one judge's verdicts on constraints in all runs: ``score``'s judge or the only one."""
    common, *others = (
        judges_with_verdicts(folder.attempts, of_criteria=True) for folder in folders
    )
    for judges in others:
        common = [judge for judge in common if judge in judges]
    if not common:
        refuse_unknown_label("--by", by, tables)
    judge = score.partition(".")[0]
    if judge not in common:
        if len(common) > 1:
            problem = f"--by {by}: several judges report constraints: {', '.join(common)}."
            remedy = f"Select the score of one judge: --score {common[0]}.strict."
            raise ConfigError(problem, remedy)
        judge = common[0]
    judged = []
    judged_tables = {}
    labels: list[str] = []  # of the instances, to suggest
    for folder in folders:
        verdicts, without = read_judged(AttemptIndex(folder.attempts), judge, round_)
        judged.append((verdicts, without))
        judged_tables[folder.name] = verdicts
        labels += tables[folder.name].labels()
    refuse_unknown_label("--by", by, judged_tables, labels)
    return JudgedTables(judge, judged)


def table(
    runs: Runs,
    rows: Annotated[str | None, typer.Option(metavar="LABEL")] = None,
    columns: Annotated[str | None, typer.Option(metavar="LABEL")] = None,
    score: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    round_: Round = None,
    intervals: bool = False,
    form: Format = "table",
) -> None:
    """What would a paper's results table of these runs look like?

    Prints one row per model and group. Runs of several benchmarks without a common table are
    shown as with --intervals.

    Args:
        intervals: Print the table of harness eval: each primary metric with its 95% interval, and
            the differences from the first model.
        rows: Label whose groups are a model's rows; '' for one row (default: as in the task's
            paper, else one row).
        columns: Label whose groups are columns; '' for one column (default: as in the task's
            paper).
        score: A score, pass_rate, or a figure of the paper's table; repeatable.
    """
    folders = find_named_runs(runs, Settings())
    read_runs = list(map(read_run, folders))
    scores = score or []
    is_custom = (rows, columns, round_) != (None, None, None) or bool(scores)
    if intervals and is_custom:
        problem = "--intervals is a table of its own."
        raise ConfigError(problem, "Leave out --rows, --columns, --score and --round.")
    tasks = {variant.metrics.task: variant.display.table for variant, _ in read_runs}
    tables = {}
    layouts = set()
    used = set(scores)
    for task, paper_table in tasks.items():
        if paper_table is not None:
            tables[task] = paper_table
            layouts.add((paper_table.rows, paper_table.columns))
            used.update(figure.score for figure in paper_table.figures)
    same_layout = len(tables) == len(tasks) and len(layouts) == 1
    if intervals or (len(tasks) > 1 and not same_layout and not is_custom):
        show(suite_document(suite_of(read_runs)), form)
        return
    if used & {TOKENS, MILLISECONDS}:
        for place, folder in enumerate(folders):
            read_runs[place] = read_runs[place][0], with_call_scores(folder.attempts)
    options = TableOptions(rows=rows, columns=columns, scores=scores, round=round_)
    results = cross_table(read_runs, tables, options)
    show(cross_table_document(results), form)
    if results.hint and form == "table":
        say(results.hint)


def _joined(documents: Mapping[str, TableDocument]) -> TableDocument:
    """Join the documents of several benchmarks, each preceded by its title."""
    parts: list[Table | Note] = []
    records: list[Mapping[str, object]] = []
    for name, document in documents.items():
        parts += [Note(document.title, "bold"), *document.parts]
        records += [{"task": name, **record} for record in document.records or ()]
    data = {name: document.data for name, document in documents.items()}
    return TableDocument(parts=parts, records=records, data=data)
