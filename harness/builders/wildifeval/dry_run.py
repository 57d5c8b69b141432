"""Estimates what a build would ask, stage by stage: an upper bound of calls, and tokens.

The number of calls is an upper bound (retries aside): the messages that pass the screening are
known, and every later stage is assumed to drop none. Tokens are estimates: four bytes to a token,
constraints of `CONSTRAINT_TOKENS`, as many as a task may have, and answers of full length.

>>> estimate(curation, chats, prompts, lambda stage: True)[0].calls  # doctest: +SKIP
1800
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.labels import LISTING_TOKENS, NAMING
from harness.builders.wildifeval.prompts import CurationPrompts
from harness.builders.wildifeval.selection import times
from harness.config.curation import Curation, StageName
from harness.records import Usage

BYTES_PER_TOKEN = 4
CONSTRAINT_TOKENS = 20


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """The estimate for a stage.

    Attributes:
        calls: Upper bound of the number of calls.
        usage: Estimated tokens of all calls.
    """

    stage: StageName
    calls: int
    usage: Usage


def estimate(
    curation: Curation,
    chats: Sequence[Chat],
    prompts: CurationPrompts,
    gives_logprobs: Callable[[StageName], bool],
) -> list[StageEstimate]:
    """Estimate what the stages would ask about these chats, in order.

    Args:
        curation: The curation file.
        chats: The chats that passed the screening.
        prompts: The prompts of the stages.
        gives_logprobs: Whether a stage's model gives log-probabilities.
    """
    sizes = sorted((len(chat.text.encode()) for chat in chats), reverse=True)
    n = max(1, round(curation.filter.keep * len(sizes))) if sizes else 0
    longest = sizes[:n]
    by = curation.domains
    batches = ceil(n / by.batch)
    naming = NAMING.max_tokens or 0

    def asked(stage: StageName, prompt: int) -> StageEstimate:
        samples, decoding = times(curation.filter, gives_logprobs(stage))
        calls = samples * len(sizes)
        read = samples * (_of_bytes(sum(sizes)) + prompt * len(sizes))
        return StageEstimate(stage, calls, Usage(read, calls * (decoding.max_tokens or 0)))

    stages: list[StageEstimate] = []
    if curation.screen.toxicity == "model":
        stages.append(asked("toxicity", _tokens(prompts.text("toxic", message=""))))
    stages.append(asked("filter", _tokens(prompts.text("constrained", message=""))))
    read = _of_bytes(sum(longest))
    decompose = read + n * _tokens(prompts.text("decompose", message=""))
    stages.append(
        StageEstimate("decompose", n, Usage(decompose, n * curation.decompose.max_tokens))
    )
    constraints = n * curation.constraints.most_of_a_task
    kind = _tokens(prompts.text("category", constraint="")) + CONSTRAINT_TOKENS
    stages.append(
        StageEstimate("categories", constraints, Usage(constraints * kind, constraints * naming))
    )
    area = _tokens(prompts.text("domain", message="", domains=["x" * 20] * by.merged))
    shown = _of_bytes(sum(min(size, by.shown) + 24 for size in longest))
    names = _tokens("x" * 20) * by.proposed * batches
    merging = 1 if batches * by.proposed > by.merged else 0
    listed = LISTING_TOKENS * (by.proposed * batches + by.merged)
    usage = Usage(shown + names + read + n * area, listed + n * naming)
    stages.append(StageEstimate("domains", batches + merging + n, usage))
    return stages


def _tokens(text: str) -> int:
    return _of_bytes(len(text.encode()))


def _of_bytes(size: int) -> int:
    return ceil(size / BYTES_PER_TOKEN)
