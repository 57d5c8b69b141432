"""`harness compare`: compares runs with a baseline."""

from rich.text import Text

from harness.analysis.comparable import read_run
from harness.analysis.constraints import read_findings
from harness.analysis.run_comparison import Against, ComparisonOptions, compare_runs
from harness.analysis.summary import latencies, measure
from harness.cli.options import Baseline, By, Cluster, Format, Round, Runs, Score
from harness.config.settings import Settings
from harness.engine.run_files import baseline_name, runs_named
from harness.errors import ConfigError
from harness.report.comparison import comparison_document
from harness.report.runs import cost_table
from harness.report.text import inert
from harness.store.calls import read_latencies
from harness.store.index import AttemptIndex, read_names
from harness.terminal.console import output, show


def compare(
    runs: Runs,
    baseline: Baseline = "",
    by: By = "",
    score: Score = "",
    round_: Round = None,
    cluster: Cluster = "",
    form: Format = "table",
    ids: bool = False,
    constraints: bool = False,
    cost: bool = False,
) -> None:
    """Is one run better than another?

    Compares runs instance by instance, with paired tests and confidence intervals.

    Args:
        ids: List the instances where a run is better or worse.
        constraints: Show which kinds of constraints a run fixed and broke.
        cost: Show each run's calls, tokens, latency and cost.
    """
    if cost and form != "table":
        raise ConfigError("--cost works with the printed table only.", "Remove --format.")
    settings = Settings()
    folders = runs_named(runs, settings)
    if len(folders) < 2:
        raise ConfigError("Only one run was named.", "Name two or more; 'harness ls' lists them.")
    baseline = baseline_name(baseline, settings)
    asked = ComparisonOptions(score=score, round=round_, by=by, cluster=cluster)
    names: dict[int, str] = {}
    if ids or form == "json":
        for folder in folders:
            names |= read_names(folder.attempts)
    changes = {}
    for folder in folders if constraints else ():
        changes[folder.name] = read_findings(AttemptIndex(folder.attempts), round_)
        if not len(changes[folder.name].table):
            problem = f"The run {folder.name!r} has no scores of individual constraints."
            raise ConfigError(problem, "Remove --constraints.")
    compared = [read_run(folder) for folder in folders]
    found = compare_runs(compared, asked, baseline, names=names, findings=changes)
    show(comparison_document(found), form)
    if form != "table":
        return
    if cost:
        seconds = [latencies(read_latencies(AttemptIndex(one.attempts))) for one in folders]
        output.print()
        show(cost_table(list(zip(map(measure, folders), seconds, strict=True))))
    if ids:
        for one in found.others:
            _print_ids(one, found.baseline)


def _print_ids(one: Against, baseline: str) -> None:
    lists = {f"better than {baseline}": one.better, f"worse than {baseline}": one.worse}
    for name, change in one.constraints.items():
        changes = {"fixed": change.fixed, "broken": change.broken}
        lists |= {f"{what}: {name}": ids for what, ids in changes.items() if ids}
    for heading, ids in lists.items():
        output.print()
        output.print(inert(f"{one.run}, {heading} ({len(ids):,}):"), style="bold")
        for name in ids:
            output.print(Text("  ") + inert(name), soft_wrap=True)
