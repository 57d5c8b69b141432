"""`harness compare`: compares runs with a baseline."""

from rich.text import Text

from harness.analysis.summary import compute_metrics
from harness.cli.options import Baseline, By, Cluster, Format, Round, Runs, Score
from harness.config.settings import Settings
from harness.engine.run_files import baseline_name, find_named_runs
from harness.errors import ConfigError
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.comparisons.comparison_document import comparison_document
from harness.plugins.comparisons.constraints import read_findings
from harness.plugins.comparisons.costs import cost_table, latencies, read_latencies
from harness.plugins.comparisons.run_comparison import Against, ComparisonOptions, compare_runs
from harness.report.text import escape_name
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
    folders = find_named_runs(runs, settings)
    if len(folders) < 2:
        raise ConfigError("Only one run was named.", "Name two or more; 'harness ls' lists them.")
    baseline = baseline_name(baseline, settings)
    options = ComparisonOptions(score=score, round=round_, by=by, cluster=cluster)
    names: dict[int, str] = {}
    if ids or form == "json":
        for folder in folders:
            names |= read_names(folder.attempts)
    findings = {}
    for folder in folders if constraints else ():
        findings[folder.name] = read_findings(AttemptIndex(folder.attempts), round_)
        if not len(findings[folder.name].table):
            problem = f"The run {folder.name!r} has no scores of individual constraints."
            raise ConfigError(problem, "Remove --constraints.")
    variants = [read_run(folder) for folder in folders]
    comparison = compare_runs(variants, options, baseline, names=names, findings=findings)
    show(comparison_document(comparison), form)
    if form != "table":
        return
    if cost:
        costs = []
        for folder in folders:
            seconds = latencies(read_latencies(AttemptIndex(folder.attempts)))
            costs.append((compute_metrics(folder), seconds))
        output.print()
        show(cost_table(costs))
    if ids:
        for against in comparison.others:
            _print_ids(against, comparison.baseline)


def _print_ids(against: Against, baseline: str) -> None:
    lists = {f"better than {baseline}": against.better, f"worse than {baseline}": against.worse}
    for name, change in against.constraints.items():
        if change.fixed:
            lists[f"fixed: {name}"] = change.fixed
        if change.broken:
            lists[f"broken: {name}"] = change.broken
    for heading, ids in lists.items():
        output.print()
        output.print(escape_name(f"{against.run}, {heading} ({len(ids):,}):"), style="bold")
        for name in ids:
            output.print(Text("  ") + escape_name(name), soft_wrap=True)
