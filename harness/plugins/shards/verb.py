"""`harness merge`: merge the runs of all shards into one."""

from typing import Annotated

import typer

from harness.cli.manage import run_metrics
from harness.config.settings import Settings
from harness.plugins.shards.merging import find_shards
from harness.plugins.shards.merging import merge as merge_shards
from harness.report.run_tables import run_document
from harness.store.runs import run_name, run_path
from harness.terminal.console import say, show


def merge(base: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Merge the runs of all shards (harness run FILE --shard 1/4, …) into one run.

    All shards must be finished and in the folder of runs. Their runs stay. The merged run can be
    shown, compared and resumed like a run that was never split.

    Args:
        base: The name of the run file, or the --name of the shards.
    """
    settings = Settings()
    base = run_path(settings.runs_dir, base).name
    found = find_shards(settings.runs_dir, base)
    for variant, shards in found.items():
        name = run_name(base, variant)
        merged = merge_shards(shards, name, settings)
        if metrics := run_metrics(merged):
            show(run_document(metrics))
        say(f"Merged {len(shards):,} shards: {merged.path}")
