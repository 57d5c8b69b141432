"""The stages of a curation that ask models. They turn chats into rows of the data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from harness.errors import DataInvalid, Unparseable
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES, Constraint
from harness.plugins.builders.draws import Draws
from harness.plugins.builders.wildifeval import asking
from harness.plugins.builders.wildifeval.asking import (
    CurationPrompts,
    Decomposition,
    StageAnswer,
    StageCalls,
    sameness,
    times,
    top_share,
    yes_probabilities,
)
from harness.plugins.builders.wildifeval.curation_file import (
    ConstraintsSection,
    Curation,
    PromptName,
    StageName,
)
from harness.plugins.builders.wildifeval.screening import Chat, Screened, Step
from harness.records import Decoding, Usage

T = TypeVar("T")

BYTES_PER_TOKEN = 4
CONSTRAINT_BYTES = 20 * BYTES_PER_TOKEN
NAME_TOKENS = 30  # maximum tokens of a name


class RowConstraint(Constraint, frozen=True, omit_defaults=True):
    """A constraint with its category and, in the category Other, a title that the model gave."""

    title: str = ""


class CuratedRow(Struct, frozen=True, omit_defaults=True):
    """A task of the built data set, as a line of ``tasks.jsonl``."""

    id: str
    task: str  # the whole message
    constraints: tuple[RowConstraint, ...]
    domain: str = ""
    asks: str = ""  # the request without its constraints
    context: str = ""  # material given with the request


class Curated(Struct, frozen=True):
    """The results of the stages that ask models."""

    rows: list[CuratedRow]
    steps: list[Step]
    mark: float  # the lowest probability of yes among the messages that `filter` kept
    proposed: dict[str, int]  # number of batches that proposed each domain
    domains: list[str]
    unread: dict[str, dict[str, int]]  # replies that name no label on the list, by stage


async def curated(
    curation: Curation, prompts: CurationPrompts, asking: StageCalls, screened: Screened
) -> Curated:
    """Run the stages that ask models on the screened chats.

    Raises:
        ConfigError: If a filter cannot read any of its first replies.
        DataInvalid: If a stage drops all chats, or if the model names no domains.
        HarnessError, Stopping: As in `StageCalls.ask`.
    """
    stages = _ModelStages(curation, prompts, asking)
    chats = screened.chats
    steps = [_not_empty(screened.step)]
    if curation.screen.toxicity == "model":
        chats, step = await stages.without_toxic(chats)
        steps.append(_not_empty(step))
    chats, step, mark = await stages.constrained(chats)
    steps.append(_not_empty(step))
    tasks, step = await stages.decomposed(chats)
    steps.append(_not_empty(step))
    tasks, step = not_repeated(tasks, curation.constraints, curation.seed)
    steps.append(_not_empty(step))
    kinds = await stages.categories(tasks)
    proposed = await stages.proposed_domains(tasks)
    names = await stages.merged_domains(proposed)
    domains = await stages.domains(tasks, names)
    rows = []
    for task, domain in zip(tasks, domains, strict=True):
        constraints = []
        for constraint in task.constraints:
            category, title = kinds[sameness(constraint.text)]
            constraints.append(RowConstraint(constraint.text, category, title))
        rows.append(replace(task, constraints=tuple(constraints), domain=domain))
    return Curated(rows, steps, mark, dict(proposed), names, stages.unread)


class _ModelStages:
    def __init__(self, curation: Curation, prompts: CurationPrompts, asking: StageCalls) -> None:
        self._curation = curation
        self._prompts = prompts
        self._asking = asking
        self.unread: dict[str, dict[str, int]] = {}

    async def without_toxic(self, chats: Sequence[Chat]) -> tuple[list[Chat], Step]:
        probabilities = await self._probabilities("toxicity", "toxic", chats)
        limit = self._curation.screen.toxic_from
        toxic = {name for name, value in probabilities.items() if value is None or value >= limit}
        plain = probabilities.keys() - toxic
        return _split(chats, probabilities, plain, "toxicity", "toxic")

    async def constrained(self, chats: Sequence[Chat]) -> tuple[list[Chat], Step, float]:
        """Return the chats likeliest to have constraints, the step, and the cut-off probability."""
        probabilities = await self._probabilities("filter", "constrained", chats)
        top, mark = top_share(probabilities, self._curation.filter.keep, self._curation.seed)
        remaining, step = _split(chats, probabilities, top, "filter", "not among the likeliest")
        return remaining, step, mark

    async def decomposed(self, chats: Sequence[Chat]) -> tuple[list[CuratedRow], Step]:
        by = self._curation.decompose
        prompts = {chat.id: self._prompt("decompose", message=chat.text) for chat in chats}
        prompt = self._prompts.text("decompose", message="")

        def read(answer: StageAnswer) -> Decomposition | str:  # a text says why there is none
            if answer.outcome != "ok":
                return answer.outcome
            try:
                return asking.decomposition(answer.text, prompt)
            except Unparseable as error:
                return error.message

        replies = await self._ask("decompose", prompts, read, by.max_tokens, by.temperature)
        tasks = list[CuratedRow]()
        step = Step("decompose", len(chats))
        for chat, parts in zip(chats, replies, strict=True):
            if isinstance(parts, str):
                step.leave_out("not decomposed", chat.id, chat.text, parts)
            elif not parts.constraints:
                step.leave_out("no constraints", chat.id, chat.text)
            else:
                constraints = tuple(map(RowConstraint, parts.constraints))
                row = CuratedRow(chat.id, chat.text, constraints, "", parts.task, parts.context)
                tasks.append(row)
        return tasks, step

    async def categories(self, tasks: Sequence[CuratedRow]) -> dict[str, tuple[str, str]]:
        """Return each constraint's category and title, by the constraint's `sameness`."""
        texts: dict[str, str] = {}
        for task in tasks:
            for constraint in task.constraints:
                texts.setdefault(sameness(constraint.text), constraint.text)
        prompts = {
            f"constraint {number}": self._prompt("category", constraint=text)
            for number, text in enumerate(texts.values(), start=1)
        }
        numbers = asking.numbering(self._prompts.text("category", constraint=""), CATEGORIES)
        read = partial(asking.category, numbers=numbers)
        labels = await self._labels("categories", prompts, read)
        return {text: label or ("", "") for text, label in zip(texts, labels, strict=True)}

    async def proposed_domains(self, tasks: Sequence[CuratedRow]) -> Counter[str]:
        """Return the domains that the model proposed, with their numbers of proposals."""
        by = self._curation.domains
        texts = []
        for task in tasks:
            cut = "…" if len(task.task) > by.shown else ""
            texts.append(task.task[: by.shown] + cut)
        prompts = {}
        for number, start in enumerate(range(0, len(texts), by.batch), start=1):
            batch = texts[start : start + by.batch]
            prompts[f"batch {number}"] = self._prompt("propose_domains", tasks=batch, n=by.proposed)
        written: dict[str, str] = {}
        counts = Counter[str]()
        for names in await self._ask("domains", prompts, _names, NAME_TOKENS * by.proposed):
            for name in names[: by.proposed]:
                counts[written.setdefault(name.casefold(), name)] += 1
        _refuse_no_domains(counts)
        return counts

    async def merged_domains(self, proposed: Mapping[str, int]) -> list[str]:
        """Return the proposed domains, merged by the model if there are too many."""
        limit = self._curation.domains.merged
        if len(proposed) <= limit:
            return list(proposed)
        order = sorted(proposed, key=lambda name: (-proposed[name], name))
        listed = "\n".join(f"{name}: {proposed[name]}" for name in order)
        prompts = {"all batches": self._prompt("merge_domains", names=listed, n=limit)}
        [names] = await self._ask("domains", prompts, _names, NAME_TOKENS * limit)
        _refuse_no_domains(names)
        return names[:limit]

    async def domains(self, tasks: Sequence[CuratedRow], names: Sequence[str]) -> list[str]:
        """Return the domain of each task ("" if the reply gives none of ``names``)."""
        # The names were written by a model: put each on one line, without tags.
        listed = [" ".join(name.split()).replace("<", "&lt;") for name in names]
        prompts = {t.id: self._prompt("domain", message=t.task, domains=listed) for t in tasks}
        listing = self._prompts.text("domain", message="", domains=listed).replace("&lt;", "<")
        read = partial(asking.chosen, names=names, numbers=asking.numbering(listing, names))
        labels = await self._labels("domains", prompts, read)
        return [name or "" for name in labels]

    async def _labels(
        self, stage: StageName, prompts: Mapping[str, Callable[[], str]], read: Callable[[str], T]
    ) -> list[T | None]:
        """Return the label in each reply, or None if it cannot be read."""

        def label_and_reply(answer: StageAnswer) -> tuple[T | None, str]:
            shown_reply = asking.first_line(answer.text)[: asking.LONGEST_NAME]
            label = read(answer.text) if answer.outcome == "ok" else None
            return label, shown_reply or answer.outcome

        pairs = await self._ask(stage, prompts, label_and_reply, NAME_TOKENS)
        self.unread[stage] = dict(Counter(shown_reply for label, shown_reply in pairs if not label))
        return [label for label, _ in pairs]

    def _prompt(self, name: PromptName, **fields: Any) -> Callable[[], str]:
        return partial(self._prompts.text, name, **fields)

    async def _ask(
        self,
        stage: StageName,
        prompts: Mapping[str, Callable[[], str]],
        read: Callable[[StageAnswer], T],
        max_tokens: int,
        temperature: float = 0.0,
    ) -> list[T]:
        questions = list(prompts.items())
        decoding = Decoding(temperature, max_tokens)
        answers = await self._asking.ask(stage, questions, decoding, read)
        return [answer for [answer] in answers]

    async def _probabilities(
        self, stage: StageName, prompt: PromptName, chats: Sequence[Chat]
    ) -> dict[str, float | None]:
        by = self._curation.filter
        questions = [(chat.id, self._prompt(prompt, message=chat.text)) for chat in chats]
        probabilities = await yes_probabilities(self._asking, stage, questions, by)
        names = [chat.id for chat in chats]
        return dict(zip(names, probabilities, strict=True))


def _split(
    chats: Sequence[Chat],
    probabilities: Mapping[str, float | None],
    selected: set[str],
    name: str,
    reason: str,
) -> tuple[list[Chat], Step]:
    """Return the ``selected`` chats, and a step that records why the others were dropped."""
    remaining = list[Chat]()
    step = Step(name, len(chats))
    for chat in chats:
        probability = probabilities[chat.id]
        if probability is None:
            step.leave_out("undecided", chat.id, chat.text)
        elif chat.id in selected:
            remaining.append(chat)
        else:
            step.leave_out(reason, chat.id, chat.text, f"probability {probability:.2f}")
    return remaining, step


def not_repeated(
    tasks: Sequence[CuratedRow], by: ConstraintsSection, seed: int
) -> tuple[list[CuratedRow], Step]:
    """Drop tasks with too many constraints, or with a constraint that too many tasks share.

    Logs contain templates, so the same constraint may be in hundreds of messages. Of the tasks with
    a constraint, at most ``by.most_tasks`` are kept, drawn at random.

    Returns:
        The remaining tasks, in their original order, and a step that records the dropped ones.
    """
    step = Step("constraints", len(tasks))
    keys: dict[str, set[str]] = {}  # by task with few enough constraints
    few = list[CuratedRow]()
    frequent = Counter[str]()
    for task in tasks:
        n = len(task.constraints)
        if n > by.most_of_a_task:
            step.leave_out("too many constraints", task.id, task.task, f"{n} constraints")
            continue
        few.append(task)
        keys[task.id] = {sameness(constraint.text) for constraint in task.constraints}
        frequent.update(keys[task.id])
    kept_with = Counter[str]()
    repeated = dict[str, str]()
    for task in Draws(seed, "repetition").shuffled(few):
        full = [key for key in keys[task.id] if kept_with[key] >= by.most_tasks]
        if full:
            repeated[task.id] = min(full)
        else:
            kept_with.update(keys[task.id])
    remaining = []
    for task in few:
        if key := repeated.get(task.id):
            detail = f"{key} ({frequent[key]:,} tasks)"
            step.leave_out("repeated constraint", task.id, task.task, detail)
        else:
            remaining.append(task)
    return remaining, step


def _names(answer: StageAnswer) -> list[str]:
    """Return the names listed in a reply, without one that is cut off."""
    if answer.outcome not in ("ok", "truncated"):
        return []
    names = asking.numbered_names(answer.text)
    if answer.outcome == "truncated":
        return names[:-1]
    return names


def _refuse_no_domains(names: Iterable[str]) -> None:
    if not any(names):
        message = "The model of the stage 'domains' named no domains."
        raise DataInvalid(message, "Give the stage another model: models.domains.")


def _not_empty(step: Step) -> Step:
    if step.left:
        return step
    reasons = [f"{n:,} {reason}" for reason, n in step.removed.items()]
    why = ", ".join(reasons) or "there was nothing"
    raise DataInvalid(
        f"Nothing is left after the step {step.name!r} ({why}).",
        "Use more chats, or change the settings of that step (harness docs wildifeval_build).",
    )


class StageEstimate(NamedTuple):
    """A stage's maximum number of calls, and a rough estimate of the tokens of all calls."""

    stage: StageName
    calls: int
    usage: Usage


def estimate(
    curation: Curation,
    chats: Sequence[Chat],
    prompts: CurationPrompts,
    gives_logprobs: Callable[[StageName], bool],
) -> list[StageEstimate]:
    """Return the maximum number of calls of each stage, and a rough estimate of their tokens."""
    n_bytes = sum(len(chat.text.encode()) for chat in chats)
    average = "x" * (n_bytes // max(1, len(chats)))
    n_tasks = 0
    if chats:
        n_tasks = max(1, round(curation.filter.keep * len(chats)))

    def size(name: PromptName, **fields: Any) -> int:
        return ceil(len(prompts.text(name, **fields).encode()) / BYTES_PER_TOKEN)

    def calls(stage: StageName, number: int, read: int, written: int) -> StageEstimate:
        return StageEstimate(stage, number, Usage(number * read, number * written))

    def decided(stage: StageName, name: PromptName) -> StageEstimate:
        samples, decoding = times(curation.filter, gives_logprobs(stage))
        read = size(name, message=average)
        return calls(stage, samples * len(chats), read, decoding.max_tokens or 0)

    stages = [decided("filter", "constrained")]
    if curation.screen.toxicity == "model":
        stages.insert(0, decided("toxicity", "toxic"))
    read = size("decompose", message=average)
    stages.append(calls("decompose", n_tasks, read, curation.decompose.max_tokens))
    n_constraints = n_tasks * curation.constraints.most_of_a_task
    read = size("category", constraint="x" * CONSTRAINT_BYTES)
    stages.append(calls("categories", n_constraints, read, NAME_TOKENS))
    by = curation.domains
    n_batches = ceil(n_tasks / by.batch)
    merges = n_batches * by.proposed > by.merged
    listed = NAME_TOKENS * (by.proposed * n_batches + by.merged)
    batch = size("propose_domains", tasks=[average[: by.shown]] * by.batch, n=by.proposed)
    assigned = n_tasks * size("domain", message=average, domains=["x" * 20] * by.merged)
    usage = Usage(assigned + n_batches * batch + listed, n_tasks * NAME_TOKENS + listed)
    stages.append(StageEstimate("domains", n_batches + merges + n_tasks, usage))
    return stages
