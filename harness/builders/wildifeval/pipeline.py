"""The stages of the curation, one after the other, from screened chats to rows.

>>> await curated(curation, prompts, asking, screened)  # doctest: +SKIP
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from harness.builders.draws import Draws
from harness.builders.wildifeval.asking import Asking, Questions, StageAnswer, StageQuestion
from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.labels import (
    categories,
    domains,
    merged_domains,
    proposed_domains,
)
from harness.builders.wildifeval.prompts import CurationPrompts
from harness.builders.wildifeval.replies import (
    Category,
    DecomposedTask,
    Decomposition,
    decomposition,
    sameness,
)
from harness.builders.wildifeval.screening import Screened, Step
from harness.builders.wildifeval.selection import constrained, without_toxic
from harness.config.curation import ConstraintsSection, Curation, DecomposeSection
from harness.errors import DataInvalid, Unparseable
from harness.records import Decoding


class RowConstraint(Struct, frozen=True, omit_defaults=True):
    """A constraint; ``title`` is the model's own name of its category, if that is Other."""

    text: str
    category: str = ""
    title: str = ""


class CuratedRow(Struct, frozen=True, omit_defaults=True):
    """A task in the form that the task ``wildifeval`` reads.

    Attributes:
        task: The user's message.
        asks: What it asks for, without its constraints.
        context: What it gives to work with.
    """

    id: str
    task: str
    constraints: tuple[RowConstraint, ...]
    domain: str = ""
    asks: str = ""
    context: str = ""


class Curated(Struct, frozen=True):
    """The result of the stages.

    Attributes:
        steps: What each stage left out.
        mark: The lowest probability of yes that was kept.
        proposed: The proposed domains, with the number of batches that proposed each.
        domains: The merged domains.
    """

    rows: list[CuratedRow]
    steps: list[Step]
    mark: float
    proposed: dict[str, int]
    domains: list[str]


async def curated(
    curation: Curation, prompts: CurationPrompts, asking: Asking, screened: Screened
) -> Curated:
    """Run the stages that ask models.

    Raises:
        DataInvalid: Nothing is left. Otherwise as `Asking.ask`.
    """
    chats, steps = screened.chats, [screened.step]
    _refuse_none(chats, steps)
    if curation.screen.toxicity == "model":
        chats, step = await without_toxic(chats, asking, prompts, curation.screen, curation.filter)
        steps.append(step)
        _refuse_none(chats, steps)
    chats, step, mark = await constrained(chats, asking, prompts, curation.filter, curation.seed)
    steps.append(step)
    _refuse_none(chats, steps)
    tasks, step = await _decomposed(chats, asking, prompts, curation.decompose)
    steps.append(step)
    _refuse_none(tasks, steps)
    tasks, step = not_repeated(tasks, curation.constraints, curation.seed)
    steps.append(step)
    _refuse_none(tasks, steps)
    kinds = await categories(tasks, asking, prompts)
    proposed = await proposed_domains(tasks, asking, prompts, curation.domains)
    names = await merged_domains(proposed, asking, prompts, curation.domains)
    found = await domains(tasks, names, asking, prompts)
    rows = [_row(task, kinds, domain) for task, domain in zip(tasks, found, strict=True)]
    return Curated(rows, steps, mark, dict(proposed), names)


async def _decomposed(
    chats: Sequence[Chat], asking: Asking, prompts: CurationPrompts, by: DecomposeSection
) -> tuple[list[DecomposedTask], Step]:
    questions = Questions(
        chats, lambda chat: StageQuestion(chat.id, prompts.text("decompose", message=chat.text))
    )
    decoding = Decoding(by.temperature, by.max_tokens)
    found = await asking.ask("decompose", questions, decoding, _apart)
    tasks, step = list[DecomposedTask](), Step("decompose", len(chats))
    for chat, [apart] in zip(chats, found, strict=True):
        if isinstance(apart, str):
            step.leave_out("not taken apart", chat.id, chat.text, apart)
        elif not apart.constraints:
            step.leave_out("no constraints", chat.id, chat.text)
        else:
            tasks.append(DecomposedTask(chat.id, chat.text, apart))
    return tasks, step


def _apart(answer: StageAnswer) -> Decomposition | str:
    """Return the decomposition in a reply, or why it cannot be used."""
    if answer.outcome != "ok":
        return answer.outcome
    try:
        return decomposition(answer.text)
    except Unparseable as error:
        return error.message


def not_repeated(
    tasks: Sequence[DecomposedTask], by: ConstraintsSection, seed: int
) -> tuple[list[DecomposedTask], Step]:
    """Leave out tasks with too many constraints, and tasks that repeat one too often.

        Logs hold templates, with the same condition in hundreds of messages. Tasks are examined in
    random order; one is kept as long as none of its constraints is in ``most_tasks`` kept ones. It
        is kept or left out as a whole, since its message asks for all of its constraints.

        >>> task = Task("a", "…", Decomposition("", "", ("Be brief.",)))
        >>> [task.id for task in not_repeated([task], ConstraintsSection(), 0)[0]]
        ['a']
    """
    step = Step("constraints", len(tasks))
    few = list[DecomposedTask]()
    for task in tasks:
        n = len(task.apart.constraints)
        if n > by.most_of_a_task:
            step.leave_out("too many constraints", task.id, task.text, f"{n} constraints")
        else:
            few.append(task)
    frequent = Counter(one for task in few for one in task.constraints)
    kept_with = Counter[str]()
    repeated = dict[str, str]()
    for task in Draws(seed, "repetition").shuffled(few):
        full = [one for one in task.constraints if kept_with[one] >= by.most_tasks]
        if full:
            repeated[task.id] = min(full)
        else:
            kept_with.update(task.constraints)
    for task in few:
        if one := repeated.get(task.id):
            detail = f"{one} ({frequent[one]:,} tasks)"
            step.leave_out("repeated constraint", task.id, task.text, detail)
    return [task for task in few if task.id not in repeated], step


def _row(task: DecomposedTask, kinds: dict[str, Category], domain: str) -> CuratedRow:
    constraints = []
    for text in task.apart.constraints:
        kind = kinds[sameness(text)]
        constraints.append(RowConstraint(text, kind.name, kind.title))
    return CuratedRow(
        task.id, task.text, tuple(constraints), domain, task.apart.task, task.apart.context
    )


def _refuse_none(left: Sequence[object], steps: Sequence[Step]) -> None:
    if left:
        return
    last = steps[-1]
    why = ", ".join(f"{n:,} {reason}" for reason, n in last.removed.items())
    raise DataInvalid(
        f"Nothing is left after the step {last.name!r} ({why or 'there was nothing'}).",
        "Use more chats, or change the settings of that step (docs/wildifeval_build.md).",
    )
