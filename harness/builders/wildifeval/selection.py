"""Which messages are constrained generation tasks: those of which a model is surest.

The paper keeps the tenth with the highest probability of yes. Where several have the same
probability at the mark (votes know only six values), the seed draws among them, so that the share
is what it was meant to be.

>>> top_share({"a": 0.9, "b": 0.1, "c": 0.4, "d": None}, 0.3, seed=0)
({'a'}, 0.9)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.builders.draws import Draws
from harness.builders.wildifeval.agreement import yes_probabilities
from harness.builders.wildifeval.asking import Asking
from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.prompts import Prompts
from harness.builders.wildifeval.questions import Question, Questions
from harness.builders.wildifeval.steps import Step
from harness.config.curation import FilterSection, ScreenSection


def top_share(
    probabilities: Mapping[str, float | None], share: float, seed: int
) -> tuple[set[str], float]:
    """The share with the highest probability, and the lowest one among them.

    share: of those that have a probability, rounded, and at least one of them.
    """
    known = {name: found for name, found in probabilities.items() if found is not None}
    if not known:
        return set(), 0.0
    n = max(1, round(share * len(known)))
    order = Draws(seed, "selection").shuffled(list(known))
    order.sort(key=lambda name: -known[name])  # stable: what is drawn decides among equals
    return set(order[:n]), known[order[n - 1]]


async def without_toxic(
    chats: Sequence[Chat],
    asking: Asking,
    prompts: Prompts,
    screen: ScreenSection,
    by: FilterSection,
) -> tuple[list[Chat], Step]:
    """The messages that the ``toxicity`` stage's model does not find toxic.

    Raises: as `yes_probabilities`.
    """
    questions = Questions(
        chats, lambda chat: Question(chat.id, prompts.text("toxic", message=chat.text))
    )
    found = await yes_probabilities(asking, "toxicity", questions, by)
    kept, step = list[Chat](), Step("toxicity", len(chats))
    for chat, probability in zip(chats, found, strict=True):
        if probability is None:
            step.leave_out("undecided", chat.id, chat.text)
        elif probability >= screen.toxic_from:
            step.leave_out("toxic", chat.id, chat.text, f"probability {probability:.2f}")
        else:
            kept.append(chat)
    return kept, step


async def constrained(
    chats: Sequence[Chat], asking: Asking, prompts: Prompts, by: FilterSection, seed: int
) -> tuple[list[Chat], Step, float]:
    """The messages that most probably are such tasks, and the lowest probability among them.

    Raises: as `yes_probabilities`.
    """
    questions = Questions(
        chats, lambda chat: Question(chat.id, prompts.text("constrained", message=chat.text))
    )
    found = await yes_probabilities(asking, "filter", questions, by)
    probabilities = {chat.id: one for chat, one in zip(chats, found, strict=True)}
    top, mark = top_share(probabilities, by.keep, seed)
    kept, step = list[Chat](), Step("filter", len(chats))
    for chat in chats:
        probability = probabilities[chat.id]
        if chat.id in top:
            kept.append(chat)
        elif probability is None:
            step.leave_out("undecided", chat.id, chat.text)
        else:
            detail = f"probability {probability:.2f}"
            step.leave_out("not among the surest", chat.id, chat.text, detail)
    return kept, step, mark
