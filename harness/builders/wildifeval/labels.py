"""Labels: the categories of constraints, the domains of tasks.

A category is one of the paper's eight, or Other with the model's own title. Domains come from the
tasks: some are proposed for each batch of tasks, all of them are merged into a few, and each task
is assigned to one. A label that the model does not give is empty, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.builders.wildifeval.asking import Asking, Questions, StageAnswer, StageQuestion
from harness.builders.wildifeval.prompts import CurationPrompts
from harness.builders.wildifeval.replies import (
    Category,
    DecomposedTask,
    category,
    chosen,
    numbered_names,
    sameness,
)
from harness.config.curation import DomainsSection
from harness.errors import DataInvalid
from harness.records import Decoding

NAMING = Decoding(temperature=0.0, max_tokens=30)
"""For a reply that is one name."""

LISTING_TOKENS = 30
"""The most tokens of a name in a list."""


async def categories(
    tasks: Sequence[DecomposedTask], asking: Asking, prompts: CurationPrompts
) -> dict[str, Category]:
    """Return the category of each constraint by its `sameness`; each is asked about once.

    Raises as `Asking.ask`.
    """
    texts: dict[str, str] = {}
    for task in tasks:
        for one in task.apart.constraints:
            texts.setdefault(sameness(one), one)
    questions = [
        StageQuestion(f"constraint {number}", prompts.text("category", constraint=text))
        for number, text in enumerate(texts.values(), start=1)
    ]
    found = await asking.ask("categories", questions, NAMING, _category)
    return {name: each[0] for name, each in zip(texts, found, strict=True)}


async def proposed_domains(
    tasks: Sequence[DecomposedTask], asking: Asking, prompts: CurationPrompts, by: DomainsSection
) -> Counter[str]:
    """Return the proposed domains, with the number of batches that propose each.

    Raises:
        DataInvalid: No reply names any. Otherwise as `Asking.ask`.
    """
    batches = [tasks[start : start + by.batch] for start in range(0, len(tasks), by.batch)]
    questions = [
        StageQuestion(
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
            "The model of the stage 'domains' named no domains.",
            "Give the stage another model: models.domains.",
        )
    return named


async def merged_domains(
    proposed: Mapping[str, int], asking: Asking, prompts: CurationPrompts, by: DomainsSection
) -> list[str]:
    """Merge the proposed domains into a few, unless there are few already.

    Raises as `proposed_domains`.
    """
    if len(proposed) <= by.merged:
        return list(proposed)
    order = sorted(proposed, key=lambda name: (-proposed[name], name))
    listed = "\n".join(f"{name}: {proposed[name]}" for name in order)
    question = StageQuestion(
        "all batches", prompts.text("merge_domains", names=listed, n=by.merged)
    )
    decoding = Decoding(temperature=0.0, max_tokens=LISTING_TOKENS * by.merged)
    [[names]] = await asking.ask("domains", [question], decoding, _names)
    if not names:
        raise DataInvalid(
            "The model of the stage 'domains' merged the proposed domains into none.",
            "Give the stage another model: models.domains.",
        )
    return names[: by.merged]


async def domains(
    tasks: Sequence[DecomposedTask], names: Sequence[str], asking: Asking, prompts: CurationPrompts
) -> list[str]:
    """Return the domain of each task; empty if the model names none of these.

    Raises as `Asking.ask`.
    """
    listed = [inline_name(name) for name in names]
    questions = Questions(
        tasks,
        lambda task: StageQuestion(
            task.id, prompts.text("domain", message=task.text, domains=listed)
        ),
    )
    found = await asking.ask("domains", questions, NAMING, lambda answer: _chosen(answer, names))
    return [each[0] for each in found]


def inline_name(name: str) -> str:
    """Return a domain's name, which a model wrote, on one line and without tags."""
    return " ".join(name.split()).replace("<", "&lt;")


def _category(answer: StageAnswer) -> Category:
    return category(answer.text) if answer.outcome == "ok" else Category()


def _names(answer: StageAnswer) -> list[str]:
    """Return the names in a reply; of a truncated one all but the last, which may be incomplete."""
    if answer.outcome not in ("ok", "truncated"):
        return []
    names = numbered_names(answer.text)
    return names[:-1] if answer.outcome == "truncated" else names


def _chosen(answer: StageAnswer, names: Sequence[str]) -> str:
    return chosen(answer.text, names) if answer.outcome == "ok" else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
