"""`harness reproduce`: a paper's tables and figures, compared with the paper and official code."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.endings import attended, early_end
from harness.cli.options import Format, Overrides
from harness.config.settings import Settings
from harness.engine.executor import execute_all
from harness.engine.job import Job
from harness.engine.models import Resources
from harness.engine.preparation import prepare_data
from harness.errors import ConfigError
from harness.plugins.reproduce import reproduction
from harness.plugins.reproduce.page import study_document, study_page
from harness.plugins.reproduce.reproduction import StudyRecord, cautions, facts, record, study_jobs
from harness.plugins.reproduce.study import Study, find_study, read_study, shipped_studies
from harness.store.files import check_output, write_json, write_whole
from harness.terminal.console import say, show
from harness.terminal.display import Display

MOST = 20  # maximum number of differences to print
DIFFERS = 3  # exit code if a verified page does not match its runs


def reproduce(
    study: Annotated[str, typer.Argument(help="A paper's name, or the path of a study.")] = "",
    model: Annotated[str, typer.Option("-m", "--model", metavar="MODEL")] = "",
    option: Overrides = None,
    name: Annotated[str, typer.Option(metavar="NAME")] = "",
    output: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    verify: Annotated[Path | None, typer.Option(metavar="PAGE")] = None,
    form: Format = "table",
) -> None:
    """Reproduce a paper's tables and figures, and compare them with the paper and official code.

    Replays recorded answers where they exist. Other runs are simulated unless --model is set.
    Prints a summary, or every cell with --format csv or json. Writes an HTML page and its record, a
    JSON file with a hash of every reply. To resume an interrupted study, repeat the command. Exit
    codes: 0 finished, 1 failed, 3 the budget is spent or a verified page does not match its runs.

    Args:
        model: Ask this model instead, such as openai/gpt-4o-mini.
        option: Override a key of the study's run files, such as budget.usd=5; repeatable.
        name: Prefix of the runs' names (default: the study's name).
        output: The page to write (default: STUDY.html); its record is written next to it.
        verify: Check a page against its record and runs, and list the differences.
    """
    settings = Settings()
    if verify is not None:
        raise typer.Exit(_verify(verify, settings.runs_dir))
    if not study:
        known = ", ".join(shipped_studies())
        raise ConfigError(
            "Which study?",
            f"Name one of {known}, or the path of your own study. To try it offline, without "
            "recorded answers: harness reproduce last_letter. 'harness data fetch collie' and "
            "'natural_instructions' download theirs (harness docs reproduce).",
        )
    study_name, path = find_study(study)
    page = output or Path(f"{study_name}.html")
    check_output(page)
    loaded = read_study(path)
    with Resources(settings) as resources:
        jobs, reasons = study_jobs(
            loaded,
            name or study_name,
            resources,
            model,
            option or [],
            partial(prepare_data, resources=resources),
        )
        for reason in reasons:
            say(reason, "yellow")
        again = f"harness reproduce {study}"
        with Display({job.folder.name: name for name, job in jobs.items()}) as display:
            attended(_execute([*jobs.values()], display, again), display, again)
    made = record(loaded, {name: job.folder for name, job in jobs.items()}, time.time())
    write_json(page.with_suffix(".json"), made)
    write_whole(page, _page(made).encode())
    show(study_document(loaded, made.findings), form)
    say(f"Page in {page}; check it with: harness reproduce --verify {page}")


async def _execute(jobs: Sequence[Job], display: Display, again: str) -> None:
    """Execute the runs of a study, all of which must finish."""
    async for _, result, error in execute_all(jobs, display.watch, lambda: display.interrupted):
        if error is not None:
            raise error
        assert result is not None
        if code := early_end(result.ended, result.tally.budget, "budget.usd", again):
            raise typer.Exit(code)


def _page(made: StudyRecord) -> str:
    study = Study.model_validate(made.study)
    return study_page(study, made.findings, facts(made), cautions(made), made.made_at)


def _verify(page: Path, runs_dir: Path) -> int:
    kept = page.with_suffix(".json")
    found = list(reproduction.differences(kept, runs_dir))
    made = reproduction.read_record(kept)
    if page.read_text("utf-8") != _page(made):
        found.insert(0, f"{page} is not the page of {kept}")
    for one in found[:MOST]:
        say(one, "red")
    if len(found) > MOST:
        say(f"… and {len(found) - MOST:,} more")
    n = sum(len(run.replies) for run in made.runs.values())
    say(f"{page}: {len(found):,} differences" if found else f"{page} matches its {n:,} replies")
    return DIFFERS if found else 0
