"""Builds a benchmark like WildIFEval (Lior et al. 2025, arXiv 2503.06573) from your chat logs.

The steps are those of the paper. A repeated build takes answers from the cache, so it resumes where
it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import harness
from harness.calls.budget import Budget
from harness.calls.keys import provider_seed
from harness.calls.signals import Notices, Stop, Stopping
from harness.config.settings import Settings
from harness.datasets.folder import is_there, prompt_files, sha256
from harness.engine.assessment import reply_outcome
from harness.engine.call_stack import bind
from harness.engine.models import Model, ModelBuilder, Resources, check_prices, worker_count
from harness.engine.progress import Ending, Tally
from harness.engine.session import Session, open_session, work_off
from harness.errors import (
    CallError,
    ConfigError,
    DataMissing,
    FatalCallError,
    HarnessError,
    RequestRejected,
    cannot_read,
)
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES, OTHER
from harness.plugins.builders import folder
from harness.plugins.builders.corpora import FileRows
from harness.plugins.builders.folder import (
    BuiltFolder,
    Cell,
    Stages,
    card,
    document,
    inline,
    key_of,
    locked_stages,
    quoted,
    refuse_other,
    table,
)
from harness.plugins.builders.wildifeval.asking import (
    Asking,
    CurationPrompts,
    Look,
    StageAnswer,
    StageQuestion,
    simulated_reply,
)
from harness.plugins.builders.wildifeval.curation_file import AUTHORS_PROMPTS, Curation, StageName
from harness.plugins.builders.wildifeval.pipeline import (
    Curated,
    CuratedRow,
    StageEstimate,
    curated,
    estimate,
)
from harness.plugins.builders.wildifeval.screening import (
    UNREADABLE,
    Screened,
    Step,
    examine,
    log_files,
    read_chats,
    screen,
)
from harness.records import Decoding, Message, Origin, Request, Usage, encodable, messages_hash

KIND = "wildifeval"
VERSION = 2  # incremented when the screening, or what a seed draws, changes

TASKS = "tasks.jsonl"
CARD = "card.md"
REPORT = "report.md"
FILES = (TASKS, CARD, REPORT)
EXAMPLES = 5  # number of tasks in the report
LONGEST = 600  # characters of an example
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
            facts.append({"name": encodable(name), "sha256": _sha256(rows.path)})
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
    asking: Asking,
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
    facts = {
        "version": VERSION,
        "paper": "arXiv 2503.06573",
        "curation": curation.model_dump(mode="json"),
        "sources": screened_chats.sources,
        "prompts": prompts.hashes,
        **asking.facts(),
        "steps": [
            {"name": step.name, "before": step.before, "removed": step.removed, "left": step.left}
            for step in result.steps
        ],
        "mark": result.mark,
        "tasks": len(rows),
        "constraints": len(constraints),
        "categories": dict(Counter(constraint.category for constraint in constraints)),
        "domains": dict.fromkeys(result.domains, 0) | Counter(row.domain for row in rows),
        "proposed_domains": result.proposed,
        "unread": {stage: sum(lost.values()) for stage, lost in result.unread.items()},
    }
    for stage, n in facts["unread"].items():
        if n:
            status(f"{n:,} replies of the stage {stage!r} name no label on its list: see {REPORT}")
    text = report(result)
    texts = {CARD: card(out.name, about(facts), facts), REPORT: text}
    folder.write(out, KIND, {TASKS: rows}, facts, texts)
    return BuiltFolder(out, len(rows), facts, text)


def _sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise cannot_read(path, error) from None


def about(facts: Mapping[str, Any]) -> str:
    """Return the description of the data set for its card, from the facts in its manifest."""
    costs = [stage_calls["cost_usd"] for stage_calls in facts["calls"].values()]
    cost = "not known" if None in costs else f"${sum(costs):,.4f}"
    return (
        f"{facts['tasks']:,} tasks with {facts['constraints']:,} constraints, in the form of "
        f"WildIFEval ({facts['paper']}), built by harness {harness.__version__}."
        + (" The models were simulated: this is not data." if facts["simulated"] else "")
        + f" Total cost: {cost}. Answers from the cache were paid for earlier.\n\n"
        "Constraints are a model's reading of the messages; they were not checked. The filters "
        "of language and toxicity are statistical and miss some of what they should leave out. "
        "The messages are real people's words, and may be about real people."
    )


def report(curated: Curated) -> str:
    """Return the build's report in Markdown."""
    rows = curated.rows
    constraints = [constraint for row in rows for constraint in row.constraints]
    kinds = Counter(constraint.category or UNNAMED for constraint in constraints)
    titles = Counter(
        constraint.title
        for constraint in constraints
        if constraint.category == OTHER and constraint.title
    )
    areas = Counter(row.domain or UNNAMED for row in rows)
    return document(
        "# Report of the curation",
        "## What was left out",
        "Each message is counted once, under the first reason that applies.",
        table(_steps(curated.steps)),
        *_left_out(curated.steps),
        "## Constraints",
        table(
            {"category": name, "constraints": kinds[name], "share": kinds[name] / len(constraints)}
            for name in (*CATEGORIES, OTHER, UNNAMED)
        ),
        table(
            {"title in Other": name, "constraints": n}
            for name, n in titles.most_common(MOST_TITLES)
        ),
        "## Domains",
        f"{len(curated.proposed):,} were proposed, {len(curated.domains):,} remain.",
        table(
            {"domain": name, "tasks": areas[name], "share": areas[name] / len(rows)}
            for name in (*curated.domains, UNNAMED)
        ),
        "## Replies without a label on the list",
        table(
            {"stage": stage, "reply": reply, "replies": n}
            for stage, lost in curated.unread.items()
            for reply, n in Counter(lost).most_common(MOST_TITLES)
        ),
        "## Examples",
        *(_example(row) for row in rows[:EXAMPLES]),
    )


def _steps(steps: Sequence[Step]) -> Iterator[dict[str, Cell]]:
    for step in steps:
        for reason, n in [*step.removed.items(), ("all of them", step.before - step.left)]:
            left = step.left if reason == "all of them" else None
            facts: dict[str, Cell] = {"step": step.name, "left out": reason, "tasks": n}
            yield facts | {"share": n / max(1, step.before), "left": left}


def _left_out(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        for reason, examples in step.examples.items():
            yield f"### {inline(step.name)}: {inline(reason)}"
            for example in examples:
                detail = f" ({inline(example.detail)})" if example.detail else ""
                yield f"{inline(example.id)}{detail}:"
                yield quoted(example.text.strip(), LONGEST)


def _example(row: CuratedRow) -> str:
    constraints = "\n".join(
        f"- {inline(constraint.text)} ({inline(constraint.category or UNNAMED)})"
        for constraint in row.constraints
    )
    title = f"### {inline(row.id)}: {inline(row.domain or UNNAMED)}"
    return f"{title}\n\n{quoted(row.task, LONGEST)}\n\n{constraints}"


T = TypeVar("T")

FIRST_LOOK = 20  # answers to inspect before the other questions are asked

# Returns a context manager that shows the progress of the named stage, and may stop the build.
StageListener = Callable[[str, Tally, Stop, Notices], AbstractContextManager[Any]]


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
    first: list[StageName] = ["toxicity"] if curation.screen.toxicity == "model" else []
    return [*first, "filter", "decompose", "categories", "domains"]


def prepare_curation(
    curation: Curation, sources: Sequence[Path], out: Path, resources: Resources
) -> CurationJob:
    """Check a curation and its source files, and return a job for `curate`."""
    for source in sources:
        if not is_there(source):
            raise DataMissing(f"There is no file or folder {source}.", "Check the path.")
    refuse_other(out, KIND, FILES)
    prompt_files_by_name = dict(curation.prompts)
    if published := curation.by_authors:
        files = prompt_files(AUTHORS_PROMPTS, resources.settings.data_dir)
        if missing := [name for name in published if name not in files]:
            problem = f"prompts.{missing[0]}: the authors published no such prompt."
            raise ConfigError(problem, "Remove it, or name your own file.")
        prompt_files_by_name |= {name: files[name] for name in published}
    prompts = CurationPrompts(prompt_files_by_name)
    builder = ModelBuilder(resources, curation.limits, stages_folder(out) / "servers")
    built: dict[str, Model] = {}
    models: dict[StageName, Model] = {}
    for name in stage_names(curation):
        where = f"models.{name}" if name in curation.models else "model"
        if where not in built:
            section = curation.models.get(name, curation.model)
            built[where] = builder.build(section, where, simulated_reply)
        model = models[name] = built[where]
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
    gives = {stage: "logprobs" in job.models[stage].backend.features for stage in job.models}
    return estimate(job.curation, result.chats, job.prompts, gives.__getitem__)


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
            models, job.settings, name, usd=budget.usd, shared=budget.shared
        ) as session:
            asking = StageCalls(job.models, session, job.curation.seed, listener)
            try:
                result = screened(job.sources, job.curation, stages, status)
                built = await build(job.curation, job.prompts, result, job.out, asking, status)
            except Stopping:
                return CurationEnd(session.ended, None, session.budget)
            return CurationEnd("finished", built, session.budget)


class StageCalls:
    """The calls to the models of the stages (see `asking.Asking`)."""

    def __init__(
        self,
        models: Mapping[StageName, Model],
        session: Session,
        seed: int,
        listener: StageListener | None = None,
    ) -> None:
        self._models: dict[str, Model] = {str(name): model for name, model in models.items()}
        self.session = session
        self._seed = seed
        self._listener = listener
        # By stage: calls by id, each with its usage, US dollars (None: unknown), and whether paid.
        self._facts: dict[str, dict[str, tuple[Usage | None, float | None, bool]]] = {}

    def gives_logprobs(self, stage: str) -> bool:
        """Return whether the stage's model returns log-probabilities."""
        return "logprobs" in self._models[stage].backend.features

    async def ask(
        self,
        stage: str,
        questions: Sequence[StageQuestion],
        decoding: Decoding,
        read: Callable[[StageAnswer], T],
        samples: int = 1,
        look: Look | None = None,
    ) -> list[list[T]]:
        """Ask a stage's model all questions, and return the parsed answers."""
        session = self.session
        model = self._models[stage]
        remedy = "Give it another model, or set filter.votes."
        decoding = model.supported(decoding, f"The stage {stage!r}", remedy)
        facts = self._facts.setdefault(stage, {})
        first = min(FIRST_LOOK, len(questions)) if look else 0
        tally = Tally(samples * len(questions), budget=session.budget)
        looked_at: dict[int, StageAnswer] = {}
        answers: dict[tuple[int, int], T] = {}
        failed: list[str] = []

        async def answer(item: tuple[int, int]) -> None:
            place, sample = item
            seed = None
            about, text = questions[place]
            messages = (Message("user", text()),)
            if "seed" in model.backend.features:
                seed = provider_seed(self._seed, messages_hash(messages), sample)
            origin = Origin(about, sample, 1)
            request = Request(model.section.name, messages, decoding, sample, origin, seed)
            try:
                call = await bind(session, model).call(request)
            except FatalCallError:
                raise
            except RequestRejected:
                stage_answer = StageAnswer("refused")
            except CallError as error:
                tally.last_error = f"{type(error).__name__}: {error}"
                failed.append(tally.last_error)
                tally.finish_sample()
                return
            else:
                reply = call.reply
                cost = model.cost(call.reply)
                logprobs = None if reply.reasoning else reply.logprobs
                stage_answer = StageAnswer(reply_outcome(reply), reply.text, logprobs)
                paid = not call.cached or (call.id in facts and facts[call.id][2])
                facts[call.id] = reply.usage, cost, paid
                tally.count_call(reply.usage, cost, cached=call.cached)
            answers[item] = read(stage_answer)
            if place < first and sample == 0:
                looked_at[place] = stage_answer
            tally.finish_sample()

        async def answer_all(items: Iterator[tuple[int, int]]) -> None:
            await work_off(items, answer, workers=worker_count([model]), stop=session.stop)

        shown_progress = self._listener and self._listener(
            stage, tally, session.stop, session.notices
        )
        with shown_progress or nullcontext():
            if look:
                await answer_all((place, 0) for place in range(first))
                if not session.stop.requested:
                    look([looked_at[place] for place in sorted(looked_at)])
            items = product(range(len(questions)), range(samples))
            await answer_all((p, k) for p, k in items if k or p >= first)
        if len(answers) + len(failed) < tally.expected:
            raise Stopping
        if failed:
            message = f"{len(failed):,} of {tally.expected:,} calls of the stage {stage!r} failed."
            remedy = "Run the same command again: it repeats only the failed calls."
            raise HarnessError(f"{message} The last error: {failed[-1]}.", remedy)
        return [[answers[place, k] for k in range(samples)] for place in range(len(questions))]

    def facts(self) -> Mapping[str, Any]:
        """Return entries for the manifest."""
        return {
            "simulated": any(model.simulated for model in self._models.values()),
            "models": {
                stage: {"backend": model.section.backend}
                | {"endpoint": model.backend.endpoint, "name": model.section.name}
                for stage, model in self._models.items()
            },
            "calls": {stage: _totals(calls) for stage, calls in self._facts.items()},
        }


def _totals(calls: Mapping[str, tuple[Usage | None, float | None, bool]]) -> dict[str, Any]:
    usage = sum((usage for usage, *_ in calls.values() if usage), start=Usage())
    costs = [cost for _, cost, _ in calls.values() if cost is not None]
    return {
        "answers": len(calls),
        "cached": sum(not paid for *_, paid in calls.values()),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": sum(costs) if len(costs) == len(calls) else None,
    }
