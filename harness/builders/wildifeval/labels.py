"""What tasks and constraints are called: the categories of constraints, the domains of tasks.

A category is one of the paper's eight, or Other with a title of the model's. Domains are found in
the tasks themselves: some are proposed for each batch of tasks, all of them merged to a few, and
each task is then put into one. A label that a model does not give is empty, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.builders.wildifeval.asking import Asking, StageAnswer
from harness.builders.wildifeval.prompts import Prompts
from harness.builders.wildifeval.questions import Question, Questions
from harness.builders.wildifeval.repetition import Task
from harness.builders.wildifeval.replies import Category, category, chosen, numbered_names, sameness
from harness.config.curation import DomainsSection
from harness.errors import DataInvalid
from harness.records import Decoding

NAMING = Decoding(temperature=0.0, max_tokens=30)
"""Of a reply that is one name."""

LISTING_TOKENS = 30
"""Most tokens of a name in a list of them."""


async def categories(
    tasks: Sequence[Task], asking: Asking, prompts: Prompts
) -> dict[str, Category]:
    """What kind each constraint is of, by its `sameness`; each is asked about once.

    Raises: as `Asking.ask`.
    """
    texts: dict[str, str] = {}
    for task in tasks:
        for one in task.apart.constraints:
            texts.setdefault(sameness(one), one)
    questions = [
        Question(f"constraint {number}", prompts.text("category", constraint=text))
        for number, text in enumerate(texts.values(), start=1)
    ]
    found = await asking.ask("categories", questions, NAMING, _category)
    return {name: each[0] for name, each in zip(texts, found, strict=True)}


async def proposed_domains(
    tasks: Sequence[Task], asking: Asking, prompts: Prompts, by: DomainsSection
) -> Counter[str]:
    """The domains that are named for the batches, and by how many of them.

    Raises: as `Asking.ask`; DataInvalid where no reply names any.
    """
    batches = [tasks[start : start + by.batch] for start in range(0, len(tasks), by.batch)]
    questions = [
        Question(
            f"batch {number}",
            prompts.text(
                "propose_domains",
                tasks=[_cut(task.text, by.shown) for task in batch],
                n=by.proposed,
            ),
        )
        for number, batch in enumerate(batches, start=1)
    ]
    decoding = Decoding(temperature=0.0, max_tokens=LISTING_TOKENS * by.proposed)
    lists = await asking.ask("domains", questions, decoding, _names)
    written: dict[str, str] = {}
    named = Counter[str]()
    for names in lists:
        for name in names[0][: by.proposed]:
            named[written.setdefault(name.casefold(), name)] += 1
    if not named:
        raise DataInvalid(
            "The model of the stage 'domains' has named no domains.",
            "Give it another one: models.domains.",
        )
    return named


async def merged_domains(
    proposed: Mapping[str, int], asking: Asking, prompts: Prompts, by: DomainsSection
) -> list[str]:
    """A few domains of many; as they are where there are no more than that.

    Raises: as `proposed_domains`.
    """
    if len(proposed) <= by.merged:
        return list(proposed)
    order = sorted(proposed, key=lambda name: (-proposed[name], name))
    listed = "\n".join(f"{name}: {proposed[name]}" for name in order)
    question = Question("all batches", prompts.text("merge_domains", names=listed, n=by.merged))
    decoding = Decoding(temperature=0.0, max_tokens=LISTING_TOKENS * by.merged)
    [[names]] = await asking.ask("domains", [question], decoding, _names)
    if not names:
        raise DataInvalid(
            "The model of the stage 'domains' has merged them to none.",
            "Give it another one: models.domains.",
        )
    return names[: by.merged]


async def domains(
    tasks: Sequence[Task], names: Sequence[str], asking: Asking, prompts: Prompts
) -> list[str]:
    """The domain of each task; empty where the model names none of these.

    Raises: as `Asking.ask`.
    """
    listed = [inline_name(name) for name in names]
    questions = Questions(
        tasks,
        lambda task: Question(task.id, prompts.text("domain", message=task.text, domains=listed)),
    )
    found = await asking.ask("domains", questions, NAMING, lambda line: _chosen(line, names))
    return [each[0] for each in found]


def inline_name(name: str) -> str:
    """A domain's name in one line, with no tag in it: a model has written it."""
    return " ".join(name.split()).replace("<", "&lt;")


def _category(line: StageAnswer) -> Category:
    return category(line.text) if line.outcome == "ok" else Category()


def _names(line: StageAnswer) -> list[str]:
    """A list that was cut off lacks its last names only; the last one there may be half a word."""
    if line.outcome not in ("ok", "truncated"):
        return []
    names = numbered_names(line.text)
    return names[:-1] if line.outcome == "truncated" else names


def _chosen(line: StageAnswer, names: Sequence[str]) -> str:
    return chosen(line.text, names) if line.outcome == "ok" else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
