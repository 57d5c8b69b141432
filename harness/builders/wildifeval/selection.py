"""Selects constrained generation tasks: the messages that a model is most certain about.

The probability of yes comes from log-probabilities of the first tokens if the model gives them,
else from the share of its votes. The paper keeps the tenth with the highest probability. If several
messages have the lowest probability that is kept (votes have only six values), the seed draws among
them, so that the share is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness.builders.draws import Draws
from harness.builders.wildifeval.asking import Asking, Questions, StageAnswer, StageQuestion
from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.prompts import CurationPrompts
from harness.builders.wildifeval.screening import Step
from harness.config.curation import FilterSection, ScreenSection
from harness.errors import ConfigError
from harness.records import Decoding
from harness.scoring.judges import TOKENS, VOTES, mean, vote, yes_probability

VOTING_TEMPERATURE = 0.7
THINKING_TOKENS = 4000
"""A limit with room for the thoughts before a yes or no."""

QUOTED = 3
"""Unreadable replies that a message quotes."""
LONGEST = 60
"""Characters of one."""


def top_share(
    probabilities: Mapping[str, float | None], share: float, seed: int
) -> tuple[set[str], float]:
    """Choose the share with the highest probability, at least one.

    Args:
        probabilities: By name; those that are None are not counted.
        share: The share to choose.
        seed: Draws among equals.

    Returns:
        The chosen names, and the lowest probability among them.

    >>> top_share({"a": 0.9, "b": 0.1, "c": 0.4, "d": None}, 0.3, seed=0)
    ({'a'}, 0.9)
    """
    known = {name: found for name, found in probabilities.items() if found is not None}
    if not known:
        return set(), 0.0
    n = max(1, round(share * len(known)))
    order = Draws(seed, "selection").shuffled(list(known))
    order.sort(key=lambda name: -known[name])  # stable: the draw decides among equals
    return set(order[:n]), known[order[n - 1]]


async def without_toxic(
    chats: Sequence[Chat],
    asking: Asking,
    prompts: CurationPrompts,
    screen: ScreenSection,
    by: FilterSection,
) -> tuple[list[Chat], Step]:
    """Return the messages that the ``toxicity`` stage's model does not find toxic.

    Raises:
        ConfigError: The model's first replies cannot be read. Otherwise as `Asking.ask`.
    """
    questions = Questions(
        chats, lambda chat: StageQuestion(chat.id, prompts.text("toxic", message=chat.text))
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
    chats: Sequence[Chat], asking: Asking, prompts: CurationPrompts, by: FilterSection, seed: int
) -> tuple[list[Chat], Step, float]:
    """Return the messages that most probably are such tasks, and the lowest probability among them.

    Raises:
        ConfigError: The model's first replies cannot be read. Otherwise as `Asking.ask`.
    """
    questions = Questions(
        chats, lambda chat: StageQuestion(chat.id, prompts.text("constrained", message=chat.text))
    )
    found = await yes_probabilities(asking, "filter", questions, by)
    top, mark = top_share(dict(zip((c.id for c in chats), found, strict=True)), by.keep, seed)
    kept, step = list[Chat](), Step("filter", len(chats))
    for chat, probability in zip(chats, found, strict=True):
        if chat.id in top:
            kept.append(chat)
        elif probability is None:
            step.leave_out("undecided", chat.id, chat.text)
        else:
            detail = f"probability {probability:.2f}"
            step.leave_out("not among the surest", chat.id, chat.text, detail)
    return kept, step, mark


def times(by: FilterSection, gives_logprobs: bool) -> tuple[int, Decoding]:
    """Return how often each question is asked, and how the model decodes."""
    if by.votes is None and gives_logprobs:
        return 1, Decoding(temperature=0.0, max_tokens=by.max_tokens, logprobs=TOKENS)
    return by.votes or VOTES, Decoding(temperature=VOTING_TEMPERATURE, max_tokens=by.max_tokens)


async def yes_probabilities(
    asking: Asking, stage: str, questions: Sequence[StageQuestion], by: FilterSection
) -> list[float | None]:
    """Return the probability of yes for each question, or None if the model says neither.

    Raises:
        ConfigError: None of the first replies can be read; the other questions are not asked.
            Otherwise as `Asking.ask`.
    """
    samples, decoding = times(by, asking.gives_logprobs(stage))
    if decoding.logprobs is not None:
        look = partial(_refuse_unreadable, stage, _by_tokens)
        found = await asking.ask(stage, questions, decoding, _by_tokens, samples, look)
        return [each[0] for each in found]
    look = partial(_refuse_unreadable, stage, _vote)
    votes = await asking.ask(stage, questions, decoding, _vote, samples, look)
    return [mean(each) for each in votes]


def _vote(answer: StageAnswer) -> bool | None:
    return vote(answer.text) if answer.outcome in ("ok", "truncated") else None


def _by_tokens(answer: StageAnswer) -> float | None:
    if answer.outcome == "refused":  # "No, I will not" is not a no
        return None
    found = yes_probability(answer.logprobs or ())
    return found.probability if found else None


def _refuse_unreadable(
    stage: str, read: Callable[[StageAnswer], float | None], first: Sequence[StageAnswer]
) -> None:
    """Stop a stage if none of its first replies can be read; refusals are not counted.

    Raises:
        ConfigError: None can be read; the message says what they are, and what to set.
    """
    replies = [answer for answer in first if answer.outcome != "refused"]
    if not replies or any(read(answer) is not None for answer in replies):
        return
    without_logprobs = read is _by_tokens and all(one.logprobs is None for one in replies)
    texts = [answer.text[:LONGEST] for answer in replies if answer.outcome != "empty"]
    seen = []
    if without_logprobs:
        seen.append("they have no log-probabilities")
    if len(texts) < len(replies):
        seen.append(f"{len(replies) - len(texts)} have no text")
    if texts:
        seen.append(f"they say {', '.join(map(repr, list(dict.fromkeys(texts))[:QUOTED]))}")
    remedy = (
        f"A model that thinks before it answers needs filter.votes={VOTES}, "
        f"filter.max_tokens={THINKING_TOKENS}, and a server that separates its thoughts; "
        f"models.{stage} gives the stage another model (docs/wildifeval_build.md)."
    )
    if without_logprobs and any(vote(answer.text) is not None for answer in replies):
        remedy = f"Let it vote: filter.votes={VOTES}."
    raise ConfigError(
        f"The stage {stage!r} was stopped because none of its first {len(replies)} replies can be "
        f"read: {'; '.join(seen)}. They are in the cache.",
        remedy,
    )
