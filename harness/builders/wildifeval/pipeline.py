"""The stages of the curation, one after the other, from screened chats to rows.

>>> await Pipeline(curation, prompts, asking).run(screened)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from harness.builders.wildifeval.asking import Asking, StageAnswer
from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.labels import (
    categories,
    domains,
    merged_domains,
    proposed_domains,
)
from harness.builders.wildifeval.prompts import Prompts
from harness.builders.wildifeval.questions import Question, Questions
from harness.builders.wildifeval.repetition import Task, not_repeated
from harness.builders.wildifeval.replies import Category, Decomposition, decomposition, sameness
from harness.builders.wildifeval.screening import Screened
from harness.builders.wildifeval.selection import constrained, without_toxic
from harness.builders.wildifeval.steps import Step
from harness.config.curation import Curation
from harness.errors import DataInvalid, Unparseable
from harness.records import Decoding


class RowConstraint(Struct, frozen=True, omit_defaults=True):
    """A constraint of a row.

    title: what the model calls its kind where that is none of the eight.
    """

    text: str
    category: str = ""
    title: str = ""


class Row(Struct, frozen=True, omit_defaults=True):
    """A task in the form that `harness.tasks.wildifeval.data` reads.

    task: the user's message, as it was written.
    asks, context: what it asks for without its constraints, and what it gives to work with.
    """

    id: str
    task: str
    constraints: tuple[RowConstraint, ...]
    domain: str = ""
    asks: str = ""
    context: str = ""


class Curated(Struct, frozen=True):
    """What the stages have made.

    steps: what each has left out, in their order.
    mark: the lowest probability of yes that was kept.
    proposed: domains before they were merged; domains: after.
    """

    rows: list[Row]
    steps: list[Step]
    mark: float
    proposed: dict[str, int]
    domains: list[str]


class Pipeline:
    """The stages that ask models."""

    def __init__(self, curation: Curation, prompts: Prompts, asking: Asking) -> None:
        self._curation = curation
        self._prompts = prompts
        self._asking = asking

    async def run(self, screened: Screened) -> Curated:
        """All of them; what has been asked before is not asked again.

        Raises: as `Asking.ask`; DataInvalid where nothing is left.
        """
        curation, asking, prompts = self._curation, self._asking, self._prompts
        chats, steps = screened.chats, [screened.step]
        self._refuse_none(chats, steps)
        if curation.screen.toxicity == "model":
            chats, step = await without_toxic(
                chats, asking, prompts, curation.screen, curation.filter
            )
            steps.append(step)
            self._refuse_none(chats, steps)
        chats, step, mark = await constrained(
            chats, asking, prompts, curation.filter, curation.seed
        )
        steps.append(step)
        self._refuse_none(chats, steps)
        tasks, step = await self._decomposed(chats)
        steps.append(step)
        self._refuse_none(tasks, steps)
        step = Step("constraints", len(tasks))
        steps.append(step)
        tasks = not_repeated(tasks, curation.constraints, curation.seed, step)
        self._refuse_none(tasks, steps)
        kinds = await categories(tasks, asking, prompts)
        proposed = await proposed_domains(tasks, asking, prompts, curation.domains)
        names = await merged_domains(proposed, asking, prompts, curation.domains)
        found = await domains(tasks, names, asking, prompts)
        rows = [_row(task, kinds, domain) for task, domain in zip(tasks, found, strict=True)]
        return Curated(rows, steps, mark, dict(proposed), names)

    async def _decomposed(self, chats: Sequence[Chat]) -> tuple[list[Task], Step]:
        by = self._curation.decompose
        text = self._prompts.text
        questions = Questions(
            chats, lambda chat: Question(chat.id, text("decompose", message=chat.text))
        )
        found = await self._asking.ask(
            "decompose", questions, Decoding(by.temperature, by.max_tokens), _apart
        )
        tasks, step = list[Task](), Step("decompose", len(chats))
        for chat, [apart] in zip(chats, found, strict=True):
            leave_out = partial(step.leave_out, id=chat.id, text=chat.text)
            if isinstance(apart, str):
                leave_out("not taken apart", detail=apart)
            elif not apart.constraints:
                leave_out("no constraints")
            else:
                tasks.append(Task(chat.id, chat.text, apart))
        return tasks, step

    @staticmethod
    def _refuse_none(left: Sequence[object], steps: Sequence[Step]) -> None:
        if left:
            return
        last = steps[-1]
        why = ", ".join(f"{n:,} {reason}" for reason, n in last.removed.items())
        raise DataInvalid(
            f"Nothing is left after the step {last.name!r} ({why or 'there was nothing'}).",
            "Give it more chats, or set its section otherwise (docs/wildifeval_build.md).",
        )


def _apart(line: StageAnswer) -> Decomposition | str:
    """What a reply says, or why it says nothing."""
    if line.outcome != "ok":
        return line.outcome
    try:
        return decomposition(line.text)
    except Unparseable as error:
        return error.message


def _row(task: Task, kinds: dict[str, Category], domain: str) -> Row:
    constraints = []
    for text in task.apart.constraints:
        kind = kinds[sameness(text)]
        constraints.append(RowConstraint(text, kind.name, kind.title))
    return Row(task.id, task.text, tuple(constraints), domain, task.apart.task, task.apart.context)
