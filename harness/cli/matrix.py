"""`harness matrix`: compare every pair of runs, and how groups and published scores rank them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.analysis.comparable import primary_score, read_run, refuse_unknown_label
from harness.analysis.inputs import read_model_scores
from harness.analysis.judge_verdicts import judges_with_verdicts, read_judged
from harness.analysis.rankings import JudgedTables, induced_rankings
from harness.analysis.run_comparison import pair_matrix
from harness.cli.console import show
from harness.cli.options import Cluster, Format, Round, Runs, Score
from harness.config.settings import Settings
from harness.errors import ConfigError
from harness.report.matrix import matrix_document
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
    form: Format = "table",
) -> None:
    """Test every pair of runs, and show how similarly groups and published scores rank them."""
    published = read_model_scores(external) if external else None
    folders = find_runs(Settings().runs_dir, runs)
    if len(folders) < 2 and not by:
        raise ConfigError(
            "Only one run was named.",
            "Name two or more ('harness ls' lists them), or split it into groups with --by.",
        )
    found = list(map(read_run, folders))
    score = score or primary_score(variant for variant, _ in found)
    pairs = pair_matrix(found, score, round_=round_, cluster=cluster)
    rankings = None
    if by or published is not None:
        tables = [table for _, table in found]
        judged = None
        if by and not all(by in table.labels() for table in tables):
            judged = _judged(folders, tables, by, round_, score)
        rankings = induced_rankings(
            found, score, by, judged=judged, external=published, round_=round_
        )
    show(matrix_document(pairs, rankings), form)


def _judged(
    folders: Sequence[RunFolder],
    tables: Sequence[AttemptTable],
    by: str,
    round_: int | None,
    score: str,
) -> JudgedTables:
    """Read a judge's verdicts on the constraints of each run.

    Raises:
        ConfigError: No judge reports constraints, or several do and --score names none.
    """
    names = [folder.name for folder in folders]
    known = [judges_with_verdicts(folder.attempts, of_criteria=True) for folder in folders]
    common = [judge for judge in known[0] if all(judge in one for one in known)]
    if not common:
        refuse_unknown_label("--by", by, tables, names)
    judge = score.partition(".")[0]
    if judge not in common:
        if len(common) > 1:
            raise ConfigError(
                f"--by {by}: several judges report constraints: {', '.join(common)}.",
                f"Name one with its score, as in --score {common[0]}.strict.",
            )
        judge = common[0]
    found = [read_judged(AttemptIndex(folder.attempts), judge, round_=round_) for folder in folders]
    own = [table for table, _ in found]
    others = [label for table in tables for label in table.labels()]
    refuse_unknown_label("--by", by, own, names, others)
    return JudgedTables(judge, own, [without for _, without in found])
