"""How probable a model finds yes, question by question.

Where it tells log-probabilities, by its first tokens (`harness.scoring.judges._yes_probability`);
where it does not, by the share of its votes.

>>> await yes_probabilities(asking, "filter", questions, votes=None)  # doctest: +SKIP
[0.97, 0.02, None]
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.build.wildifeval.asking import Asking
from harness.build.wildifeval.journal import Asked
from harness.build.wildifeval.questions import Question
from harness.errors import ConfigError
from harness.records import Decoding
from harness.scoring.judges._votes import VOTES, share_of_yes, vote
from harness.scoring.judges._yes_probability import TOKENS, yes_probability

MOST_TOKENS = 5
"""Of a reply."""

VOTING_TEMPERATURE = 0.7


def times(votes: int | None, tells_logprobs: bool) -> tuple[int, Decoding]:
    """How often a question is asked, and how it is decoded.

    votes: as the user says; None: not at all where there are log-probabilities.
    """
    if votes is None and tells_logprobs:
        return 1, Decoding(temperature=0.0, max_tokens=MOST_TOKENS, logprobs=TOKENS)
    return votes or VOTES, Decoding(temperature=VOTING_TEMPERATURE, max_tokens=MOST_TOKENS)


async def yes_probabilities(
    asking: Asking, stage: str, questions: Sequence[Question], votes: int | None
) -> list[float | None]:
    """The probability of yes for each question; None where the model says neither yes nor no.

    Raises: as `Asking.ask`; ConfigError where no reply has log-probabilities that were asked for.
    """
    samples, decoding = times(votes, asking.tells_logprobs(stage))
    if decoding.logprobs is None:
        said = await asking.ask(stage, questions, decoding, _vote, samples)
        return [share_of_yes(each) for each in said]
    found = [each[0] for each in await asking.ask(stage, questions, decoding, _by_tokens)]
    if found and not any(told for told, _ in found):
        raise ConfigError(
            f"The model of the stage {stage!r} told no log-probabilities.",
            f"Let it vote: filter.votes={VOTES}.",
        )
    return [probability for _, probability in found]


def _vote(line: Asked) -> bool | None:
    return vote(line.text) if line.outcome in ("ok", "truncated") else None


def _by_tokens(line: Asked) -> tuple[bool, float | None]:
    """Whether log-probabilities were told, and what they say."""
    if line.outcome == "refused":  # "No, I will not" is no no
        return line.logprobs is not None, None
    found = yes_probability(line.logprobs or ())
    return line.logprobs is not None, found.probability if found else None
