"""How probable a model finds yes, question by question.

Where it tells log-probabilities, by its first tokens (`harness.scoring.yes_probability`);
where it does not, by the share of its votes. A stage is not paid for whose first replies say
neither yes nor no.

>>> await yes_probabilities(asking, "filter", questions, FilterSection())  # doctest: +SKIP
[0.97, 0.02, None]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from harness.builders.wildifeval.asking import Asking, StageAnswer
from harness.builders.wildifeval.questions import Question
from harness.config.curation import FilterSection
from harness.errors import ConfigError
from harness.records import Decoding
from harness.scoring.yes_probability import TOKENS, VOTES, share_of_yes, vote, yes_probability

VOTING_TEMPERATURE = 0.7
THINKING_TOKENS = 4000
"""A limit that leaves room for what a model thinks before it says yes or no."""

QUOTED = 3
"""Replies that are shown where none can be read."""
LONGEST = 60
"""Characters of one."""


def times(by: FilterSection, tells_logprobs: bool) -> tuple[int, Decoding]:
    """How often a question is asked, and how it is decoded."""
    if by.votes is None and tells_logprobs:
        return 1, Decoding(temperature=0.0, max_tokens=by.max_tokens, logprobs=TOKENS)
    return by.votes or VOTES, Decoding(temperature=VOTING_TEMPERATURE, max_tokens=by.max_tokens)


async def yes_probabilities(
    asking: Asking, stage: str, questions: Sequence[Question], by: FilterSection
) -> list[float | None]:
    """The probability of yes for each question; None where the model says neither yes nor no.

    Raises: as `Asking.ask`; ConfigError where none of the first replies can be read, before the
        others are asked for.
    """
    samples, decoding = times(by, asking.gives_logprobs(stage))
    if decoding.logprobs is not None:
        look = partial(_refuse_unreadable, stage, _by_tokens)
        told = await asking.ask(stage, questions, decoding, _by_tokens, samples, look)
        return [each[0] for each in told]
    look = partial(_refuse_unreadable, stage, _vote)
    votes = await asking.ask(stage, questions, decoding, _vote, samples, look)
    return [share_of_yes(each) for each in votes]


def _vote(line: StageAnswer) -> bool | None:
    return vote(line.text) if line.outcome in ("ok", "truncated") else None


def _by_tokens(line: StageAnswer) -> float | None:
    if line.outcome == "refused":  # "No, I will not" is no no
        return None
    found = yes_probability(line.logprobs or ())
    return found.probability if found else None


def _refuse_unreadable(
    stage: str, read: Callable[[StageAnswer], float | None], first: Sequence[StageAnswer]
) -> None:
    """Stop a stage none of whose first replies can be read; a refusal tells nothing of that.

    Raises: ConfigError.
    """
    replies = [line for line in first if line.outcome != "refused"]
    if not replies or any(read(line) is not None for line in replies):
        return
    untold = read is _by_tokens and all(line.logprobs is None for line in replies)
    texts = [line.text[:LONGEST] for line in replies if line.outcome != "empty"]
    seen = []
    if untold:
        seen.append("no log-probabilities of an answer were told")
    if len(texts) < len(replies):
        seen.append(f"{len(replies) - len(texts)} have no text")
    if texts:
        seen.append(f"they say {', '.join(map(repr, list(dict.fromkeys(texts))[:QUOTED]))}")
    remedy = (
        f"A model that thinks before it answers needs filter.votes={VOTES} and "
        f"filter.max_tokens={THINKING_TOKENS}, and a server that tells its thinking apart; "
        f"models.{stage} gives the stage another model (docs/wildifeval_build.md)."
    )
    if untold and any(vote(line.text) is not None for line in replies):
        remedy = f"Let it vote: filter.votes={VOTES}."
    raise ConfigError(
        f"The stage {stage!r} was stopped, for its first {len(replies)} replies are of no use: "
        f"{'; '.join(seen)}.",
        remedy,
    )
