"""`harness matrix`: compare every pair of runs, and how groups and published scores rank them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from harness.analysis.comparable import primary_score, read_run, refuse_unknown_label
from harness.analysis.inputs import read_model_scores
from harness.analysis.judge_verdicts import judges_with_verdicts, read_judged
from harness.analysis.rankings import InducedRankings, JudgedTables, induced_rankings
from harness.analysis.run_comparison import pair_matrix
from harness.cli.console import output
from harness.cli.options import Cluster, Round, Runs, Score, TableFormat, check_format
from harness.config.settings import Settings
from harness.errors import ConfigError
from harness.report.matrix import matrix_document
from harness.report.table import FORMATS
from harness.report.terminal import terminal
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder, find_runs


def matrix(
    runs: Runs,
    score: Score = "",
    by: Annotated[
        str,
        typer.Option(
            metavar="LABEL",
            help="Rank the runs in each group of this label: of the instances, or of the "
            "constraints that a judge scored (category).",
        ),
    ] = "",
    external: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Published scores to rank as well (CSV or JSONL: model, score)."
        ),
    ] = None,
    round_: Round = None,
    cluster: Cluster = "",
    form: TableFormat = "table",
) -> None:
    """Test every pair of runs, and show how similarly groups and published scores rank them."""
    show_matrix(runs, MatrixAsked(score, by, external, round_, cluster), form)


class MatrixAsked(NamedTuple):
    """What to compare; empty fields mean the default.

    Attributes:
        score: The score; by default the task's primary metric.
        by: A label of the instances, or of judged constraints.
        external: A file of published scores.
    """

    score: str = ""
    by: str = ""
    external: Path | None = None
    round: int | None = None
    cluster: str = ""


def show_matrix(names: Sequence[str], asked: MatrixAsked, form: str = "table") -> None:
    """Print the matrix of runs, recomputed from their attempts.

    Args:
        names: Names of runs, or of run files for all variants; with --by, one run suffices.
    """
    check_format(form, ["table", *FORMATS])
    external = read_model_scores(asked.external) if asked.external else None
    folders = find_runs(Settings().runs_dir, names)
    if len(folders) < 2 and not asked.by:
        raise ConfigError(
            "Only one run was named.",
            "Name two or more ('harness ls' lists them), or split it into groups with --by.",
        )
    runs = [read_run(folder) for folder in folders]
    score = asked.score or primary_score(variant for variant, _ in runs)
    matrix = pair_matrix(runs, score, round_=asked.round, cluster=asked.cluster)
    rankings: InducedRankings | None = None
    if asked.by or external is not None:
        tables = [table for _, table in runs]
        judge: JudgedTables | None = None
        if asked.by and not all(asked.by in table.labels() for table in tables):
            judge = _judged(folders, tables, asked, score)
        rankings = induced_rankings(
            runs,
            score,
            asked.by,
            judged=judge,
            external=external,
            round_=asked.round,
        )
    document = matrix_document(matrix, rankings)
    if form == "table":
        output.print(terminal(document))
    else:  # not folded: the output may be a file
        sys.stdout.write(FORMATS[form](document))


def _judged(
    folders: Sequence[RunFolder], tables: Sequence[AttemptTable], asked: MatrixAsked, score: str
) -> JudgedTables:
    """Read a judge's verdicts on the constraints of each run.

    Raises:
        ConfigError: No judge reports constraints, or several do and --score names none.
    """
    names = [folder.name for folder in folders]
    known = [judges_with_verdicts(folder.attempts, of_criteria=True) for folder in folders]
    common = [judge for judge in known[0] if all(judge in told for told in known)]
    if not common:
        refuse_unknown_label("--by", asked.by, tables, names)
    judge = score.partition(".")[0]
    if judge not in common:
        if len(common) > 1:
            raise ConfigError(
                f"--by {asked.by}: several judges report constraints: {', '.join(common)}.",
                f"Name one with its score, as in --score {common[0]}.strict.",
            )
        judge = common[0]
    found = [
        read_judged(AttemptIndex(folder.attempts), judge, round_=asked.round) for folder in folders
    ]
    own = [table for table, _ in found]
    refuse_unknown_label(
        "--by", asked.by, own, names, [one for table in tables for one in table.labels()]
    )
    return JudgedTables(judge, own, [without for _, without in found])
