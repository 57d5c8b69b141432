"""`harness eval`: models on benchmarks, named on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.console import say
from harness.cli.run import carry_out, repeated
from harness.config.loading import expand
from harness.config.settings import Settings
from harness.datasets.catalogue import CATALOGUE
from harness.errors import ConfigError
from harness.plugins import kind
from harness.run.suite import judge_of, suite_tree, write_suite
from harness.store.run_folder import RunFolder, fresh_base


def evaluate(
    tasks: str,
    model: Annotated[str, typer.Option(metavar="MODELS")],
    option: Annotated[
        list[str] | None, typer.Option("-o", "--override", metavar="KEY=VALUE")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    budget: Annotated[float | None, typer.Option(min=0.0001, metavar="USD")] = None,
    judge: Annotated[str, typer.Option(metavar="MODEL")] = "",
    name: str = "eval",
    fresh: bool = False,
    dry_run: bool = False,
) -> None:
    """Evaluate models on benchmarks, and show one table of all of them.

    Real models get the published data, downloaded at first use; simulated ones, and benchmarks
    whose data cannot be downloaded, our own instances. Writes the run file that the command stands
    for. The same command resumes an interrupted evaluation. Exit codes as in harness run: 0
    finished, 1 failed or some attempts failed, 3 the budget is spent, 130 interrupted.

    Args:
        tasks: Benchmarks, separated by commas; 'harness tasks' lists them.
        model: Models, separated by commas: BACKEND/NAME or PRESET/NAME, such as
            openai/gpt-4o-mini; 'harness backends' lists both.
        option: Set a key in all runs, such as decoding.temperature=0; repeatable.
        limit: Run at most N instances of each benchmark, round-robin over groups.
        budget: A hard cap on the cost of all runs together, in US dollars.
        judge: The model that judges the benchmarks that need a judge.
        name: What the names of the runs begin with: NAME.TASK.MODEL.
        fresh: Keep earlier runs of this name, and start new ones next to them.
        dry_run: Print the plan and estimated cost without running.
    """
    settings, options = Settings(), option or []
    named = _listed("task", tasks, kind("tasks").names())
    models = _listed("model", model)
    simulated = all(one.partition("/")[0] == "simulated" for one in models)
    chosen = any(text.startswith("task.dataset=") for text in options)
    published = not simulated and not chosen
    tree = suite_tree(named, models, judge, limit, budget, published=published)
    runs = expand(tree, "harness eval", options)
    base = fresh_base(settings.runs_dir, name, list(runs)) if fresh else name
    again = repeated(["--name", base] if fresh else [])
    path = settings.runs_dir / f"{RunFolder(settings.runs_dir, base).name}.yaml"
    for task in named:
        if published and not (task in CATALOGUE and CATALOGUE[task].option):
            say(f"{task}: our own instances, not the published data (docs/eval.md).", "yellow")
        if judge_of(task) and not any(run.judges for run in runs.values() if run.task.name == task):
            say(f"{task} needs a judge for a full verdict: set --judge BACKEND/NAME.", "yellow")

    def begin() -> None:
        write_suite(path, tree, options, again)
        say(f"Run file: {path}. To change it, copy it; to run it: harness run {path}")

    carry_out(runs, base, again, settings, dry_run=dry_run, begin=begin, table=True)


def _listed(what: str, text: str, known: list[str] | None = None) -> list[str]:
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        remedy = f"Name one of {', '.join(known)}." if known else "Write BACKEND/NAME."
        raise ConfigError(f"Which {what}?", remedy)
    return names
