"""Builds a benchmark like WildIFEval (Lior et al. 2025, arXiv 2503.06573) from your chat logs.

The steps are those of the paper. A repeated build takes answers from the cache, so it resumes where
it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from uuid import uuid4

from harness.calls.budget import Budget
from harness.calls.signals import Stopping
from harness.config.settings import Settings
from harness.datasets.folder import path_exists, prompt_files, sha256
from harness.engine.models import Model, ModelBuilder, Resources, check_prices
from harness.engine.progress import Ending
from harness.engine.session import BudgetTerms, open_session
from harness.errors import ConfigError, DataMissing, unreadable_file_error
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES, OTHER
from harness.plugins.builders import folder
from harness.plugins.builders.corpora import FileRows
from harness.plugins.builders.folder import (
    BuiltFolder,
    Stages,
    key_of,
    locked_stages,
    refuse_other,
    rendered,
)
from harness.plugins.builders.wildifeval.asking import (
    CurationPrompts,
    StageCalls,
    StageListener,
    simulated_reply,
)
from harness.plugins.builders.wildifeval.curation_file import AUTHORS_PROMPTS, Curation, StageName
from harness.plugins.builders.wildifeval.pipeline import (
    Curated,
    StageEstimate,
    curated,
    estimate,
)
from harness.plugins.builders.wildifeval.screening import (
    UNREADABLE,
    Screened,
    examine,
    log_files,
    read_chats,
    screen,
)
from harness.records import replace_surrogates

KIND = "wildifeval"
VERSION = 2  # incremented when the screening, or what a seed draws, changes

TASKS = "tasks.jsonl"
CARD = "card.md"
REPORT = "report.md"
FILES = (TASKS, CARD, REPORT)
MOST_TITLES = 20
UNNAMED = "(the model named none)"


def stages_folder(out: Path) -> Path:
    """Return the folder next to ``out`` in which a build keeps its stages."""
    path = out.absolute()  # "." has no name
    return path.with_name(f"{path.name}.stages")


def screened(
    sources: Sequence[Path], curation: Curation, stages: Stages, status: Callable[[str], None]
) -> Screened:
    """Screen the chats in files or folders, or return the saved result if nothing has changed."""
    status("Reading the chats")
    logs: list[FileRows] = []
    facts: list[dict[str, str]] = []
    for place in sources:
        for rows in log_files(place):
            name = rows.path.name
            if place.is_dir():
                name = rows.path.relative_to(place.absolute()).as_posix()
            facts.append({"name": replace_surrogates(name), "sha256": _sha256(rows.path)})
            logs.append(rows)
    key = key_of(VERSION, curation.screen.model_dump(mode="json"), facts)

    def make() -> Screened:
        chats = chain.from_iterable(map(read_chats, logs))
        return screen(examine(chats, curation.screen), facts)

    result = stages.result("screen", key, Screened, make)
    if unreadable := result.step.removed.get(UNREADABLE):
        first = result.step.examples[UNREADABLE][0].detail
        status(f"{unreadable:,} of {result.step.before:,} chats cannot be read, such as {first}")
    return result


async def build(
    curation: Curation,
    prompts: CurationPrompts,
    screened_chats: Screened,
    out: Path,
    asking: StageCalls,
    status: Callable[[str], None],
) -> BuiltFolder:
    """Build the data set from ``screened_chats``, and write the folder ``out``.

    ``asking`` calls the models, and ``status`` is called with progress messages.

    Raises:
        ConfigError: If a setting is invalid, or if a model's first replies cannot be read.
        DataInvalid: If a stage drops all chats, or the model names no domains.
        DataMissing: If a file cannot be read.
        RunConflict: If ``out`` contains anything but an unchanged earlier build.
        HarnessError: If some calls to models have failed.
        Stopping: If the build was stopped or its budget is spent.
        StoreFailed: If ``out`` cannot be written.
    """
    folder.refuse_other(out, KIND, FILES)
    result = await curated(curation, prompts, asking, screened_chats)
    rows = result.rows
    constraints = [constraint for row in rows for constraint in row.constraints]
    steps = []
    for step in result.steps:
        counts = {"before": step.before, "removed": step.removed, "left": step.left}
        steps.append({"name": step.name, **counts})
    unread = {stage: sum(replies.values()) for stage, replies in result.unread.items()}
    facts = {
        "version": VERSION,
        "paper": "arXiv 2503.06573",
        "curation": curation.model_dump(mode="json"),
        "sources": screened_chats.sources,
        "prompts": prompts.hashes,
        **asking.facts(),
        "steps": steps,
        "mark": result.mark,
        "tasks": len(rows),
        "constraints": len(constraints),
        "categories": dict(Counter(constraint.category for constraint in constraints)),
        "domains": dict.fromkeys(result.domains, 0) | Counter(row.domain for row in rows),
        "proposed_domains": result.proposed,
        "unread": unread,
    }
    for stage, n in unread.items():
        if n:
            status(f"{n:,} replies of the stage {stage!r} name no label on its list: see {REPORT}")
    text = report(result)
    card = rendered("wildifeval/card.md.j2", name=out.name, facts=facts)
    folder.write(out, KIND, {TASKS: rows}, facts, {CARD: card, REPORT: text})
    return BuiltFolder(out, len(rows), facts, text)


def _sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise unreadable_file_error(path, error) from None


def report(curated: Curated) -> str:
    """Return the build's report in Markdown."""
    categories = dict.fromkeys((*CATEGORIES, OTHER, UNNAMED), 0)
    domains = dict.fromkeys((*curated.domains, UNNAMED), 0)
    titles = Counter[str]()
    for row in curated.rows:
        domain = row.domain or UNNAMED
        domains[domain] = domains.get(domain, 0) + 1
        for constraint in row.constraints:
            category = constraint.category or UNNAMED
            categories[category] = categories.get(category, 0) + 1
            if category == OTHER and constraint.title:
                titles[constraint.title] += 1
    unread = []
    for stage, replies in curated.unread.items():
        for reply, n in Counter(replies).most_common(MOST_TITLES):
            unread.append((stage, reply, n))
    return rendered(
        "wildifeval/report.md.j2",
        curated=curated,
        categories=categories,
        titles=titles.most_common(MOST_TITLES),
        domains=domains,
        unread=unread,
        unnamed=UNNAMED,
    )


@dataclass(frozen=True, slots=True)
class CurationJob:
    """A data-set build that is checked and ready to run."""

    curation: Curation
    prompts: CurationPrompts
    sources: tuple[Path, ...]
    out: Path
    models: Mapping[StageName, Model]  # stages without a section share one object
    settings: Settings


@dataclass(frozen=True, slots=True)
class CurationEnd:
    """How a session of a data-set build ended."""

    ended: Ending
    built: BuiltFolder | None  # None: the build is unfinished
    budget: Budget | None  # None: no budget is set


def stage_names(curation: Curation) -> list[StageName]:
    """Return the names of the stages that call a model, in order."""
    names: list[StageName] = ["filter", "decompose", "categories", "domains"]
    if curation.screen.toxicity == "model":
        names.insert(0, "toxicity")
    return names


def prepare_curation(
    curation: Curation, sources: Sequence[Path], out: Path, resources: Resources
) -> CurationJob:
    """Check a curation and its source files, and return a job for `curate`."""
    for source in sources:
        if not path_exists(source):
            raise DataMissing(f"There is no file or folder {source}.", "Check the path.")
    refuse_other(out, KIND, FILES)
    prompt_files_by_name = dict(curation.prompts)
    if published := curation.by_authors:
        files = prompt_files(AUTHORS_PROMPTS, resources.settings.data_dir)
        for name in published:
            if name not in files:
                problem = f"prompts.{name}: the authors published no such prompt."
                raise ConfigError(problem, "Remove it, or name your own file.")
            prompt_files_by_name[name] = files[name]
    prompts = CurationPrompts(prompt_files_by_name)
    builder = ModelBuilder(resources, curation.limits, stages_folder(out) / "servers")
    built: dict[str, Model] = {}
    models: dict[StageName, Model] = {}
    for stage in stage_names(curation):
        where = f"models.{stage}" if stage in curation.models else "model"
        if where not in built:
            section = curation.models.get(stage, curation.model)
            built[where] = builder.build(section, where, simulated_reply)
        model = built[where]
        models[stage] = model
        if model.backend.cacheable and not model.section.name:
            raise ConfigError(f"{where}.name is missing.", "Name the model to call.")
        if "recorded" in model.backend.features:
            message = f"{where}: a recording cannot answer new questions."
            raise ConfigError(message, "Give the stage a model.")
    if curation.budget.usd is not None:
        check_prices(built.values(), resources)
    return CurationJob(curation, prompts, tuple(sources), out, models, resources.settings)


def estimate_curation(job: CurationJob, status: Callable[[str], None]) -> list[StageEstimate]:
    """Screen the chats, and estimate the calls of each stage without calling a model."""
    with locked_stages(stages_folder(job.out), job.out) as stages:
        result = screened(job.sources, job.curation, stages, status)

    def gives_logprobs(stage: StageName) -> bool:
        return "logprobs" in job.models[stage].backend.features

    return estimate(job.curation, result.chats, job.prompts, gives_logprobs)


async def curate(
    job: CurationJob,
    listener: StageListener | None = None,
    status: Callable[[str], None] = lambda _: None,
) -> CurationEnd:
    """Build or resume a data set.

    ``status`` receives messages, and ``listener`` shows progress.

    Raises:
        HarnessError: If some calls failed. To repeat only these, call this function again.
    """
    with locked_stages(stages_folder(job.out), job.out) as stages:
        name = stages.result("name", key_of(), str, lambda: uuid4().hex)
        models = list(job.models.values())
        budget = job.curation.budget
        async with open_session(
            models, job.settings, name, budget=BudgetTerms(budget.usd, budget.shared)
        ) as session:
            asking = StageCalls(job.models, session, job.curation.seed, listener)
            try:
                result = screened(job.sources, job.curation, stages, status)
                built = await build(job.curation, job.prompts, result, job.out, asking, status)
            except Stopping:
                return CurationEnd(session.early_ending, None, session.budget)
            return CurationEnd("finished", built, session.budget)
