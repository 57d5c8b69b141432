"""`harness eval`: execute the runs of several models on several benchmarks."""

from typing import Annotated

import typer

from harness.cli.options import Limit, Overrides
from harness.cli.run import ExecutionOptions, carry_out, resume_command
from harness.config.loading import parse_override
from harness.config.settings import Settings
from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.plugins.suites.api import evaluation, suite_path, write_suite
from harness.terminal.console import say


def evaluate(
    tasks: str,
    model: Annotated[list[str], typer.Option("-m", "--model", metavar="MODELS")],
    option: Overrides = None,
    limit: Limit = None,
    budget: Annotated[float | None, typer.Option(min=0.0001, metavar="USD")] = None,
    judge: Annotated[str, typer.Option(metavar="MODEL")] = "",
    name: str = "eval",
    fresh: bool = False,
    rescore: bool = False,
    batch: bool = False,
    detach: bool = False,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Evaluate models on benchmarks, and show one table of results.

    The published data is used, and downloaded at first use. Built-in instances are used if all
    models are simulated, and for benchmarks without a public download, with a message. If a
    download fails, nothing is run. Writes an equivalent run file. To resume an interrupted
    evaluation, repeat the command. Exit codes: 0 finished, 1 failed,
    some calls failed, or half of the samples have no verdict, 3 the budget is spent, 4 detached,
    130 interrupted.

    Args:
        tasks: Benchmarks, separated by commas; 'harness tasks' lists them.
        model: Models, separated by commas or repeated: BACKEND/NAME or PRESET/NAME, such as
            openai/gpt-4o-mini; 'harness backends' lists both.
        option: Set a key in all runs, such as decoding.temperature=0; repeatable.
        limit: Run at most N instances of each benchmark, round-robin over groups.
        budget: A hard cap on the cost of all runs together, in US dollars.
        judge: The model that judges the benchmarks that need a judge.
        name: Prefix of the runs' names: NAME.TASK.MODEL.
        fresh: Start new runs, and keep the earlier ones of this name as NAME-DATE.
        rescore: If only the checks or their data have changed, score the recorded answers again.
        batch: Make the calls in the providers' batches: cheaper, but they may take a day.
        detach: Like --batch, but end when all calls are in batches; repeat the command to continue.
        dry_run: Print the plan and estimated cost without running.
        yes: Do not ask before runs that may cost more than HARNESS_ASK_ABOVE_USD.
    """
    settings = Settings()
    task_names = _names_in(tasks)
    if not task_names:
        raise ConfigError("Which task?", f"Name one of {', '.join(kind('tasks').names())}.")
    models = _names_in(",".join(model))
    if not models:
        raise ConfigError("Which model?", "Write BACKEND/NAME.")
    changes = dict(map(parse_override, option or []))
    if batch or detach:
        changes.setdefault("limits.batch", True)
    suite = evaluation(task_names, models, changes, judge=judge, limit=limit, budget=budget)
    runs = suite.runs
    if detach:
        runs = {variant: run.with_batches(detach=True) for variant, run in runs.items()}
    command = resume_command()
    path = suite_path(settings.runs_dir, name)
    for note in suite.notes:
        say(note, "yellow")

    def begin() -> None:
        write_suite(path, suite.tree, command)
        say(f"Run file: {path}. To change it, copy it; to run it: harness run {path}")

    options = ExecutionOptions(dry_run, (), yes, rescore, fresh, table=True)
    carry_out(runs, name, command, settings, options, begin)


def _names_in(text: str) -> list[str]:
    parts = (part.strip() for part in text.split(","))
    return [part for part in parts if part]
