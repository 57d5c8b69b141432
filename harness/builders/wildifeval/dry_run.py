"""Estimates what a build would ask, stage by stage: an upper bound of calls, and tokens.

The number of calls is an upper bound (retries aside): the messages that pass the screening are
known, and every later stage is assumed to drop none. Tokens are estimates: four bytes to a token,
constraints of `CONSTRAINT_TOKENS`, as many as a task may have, and answers of full length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.pipeline import LISTING_TOKENS, NAMING
from harness.builders.wildifeval.prompts import CurationPrompts
from harness.builders.wildifeval.selection import times
from harness.config.curation import Curation, PromptName, StageName
from harness.records import Usage

BYTES_PER_TOKEN = 4
CONSTRAINT_TOKENS = 20


class StageEstimate(NamedTuple):
    """The upper bound of a stage's calls, and the estimated tokens of all of them."""

    stage: StageName
    calls: int
    usage: Usage


def estimate(
    curation: Curation,
    chats: Sequence[Chat],
    prompts: CurationPrompts,
    gives_logprobs: Callable[[StageName], bool],
) -> list[StageEstimate]:
    """Estimate what the stages would ask about the chats that passed the screening, in order.

    Args:
        gives_logprobs: Whether a stage's model gives log-probabilities.
    """
    sizes = sorted((_tokens(chat.text) for chat in chats), reverse=True)
    n = max(1, round(curation.filter.keep * len(sizes))) if sizes else 0
    longest, by = sum(sizes[:n]), curation.domains
    batches, naming = ceil(n / by.batch), NAMING.max_tokens or 0

    def prompt(name: PromptName, **fields: Any) -> int:
        return _tokens(prompts.text(name, **fields))

    def asked(stage: StageName, name: PromptName) -> StageEstimate:
        samples, decoding = times(curation.filter, gives_logprobs(stage))
        calls = samples * len(sizes)
        read = samples * sum(sizes) + calls * prompt(name, message="")
        return StageEstimate(stage, calls, Usage(read, calls * (decoding.max_tokens or 0)))

    first = [asked("toxicity", "toxic")] if curation.screen.toxicity == "model" else []
    constraints = n * curation.constraints.most_of_a_task
    category = prompt("category", constraint="") + CONSTRAINT_TOKENS
    merging = batches * by.proposed > by.merged
    listed = LISTING_TOKENS * (by.proposed * batches + by.merged)
    shown = sum(min(size, by.shown // BYTES_PER_TOKEN) for size in sizes[:n])
    domain = prompt("domain", message="", domains=["x" * 20] * by.merged)
    return [
        *first,
        asked("filter", "constrained"),
        StageEstimate(
            "decompose",
            n,
            Usage(longest + n * prompt("decompose", message=""), n * curation.decompose.max_tokens),
        ),
        StageEstimate(
            "categories", constraints, Usage(constraints * category, constraints * naming)
        ),
        StageEstimate(
            "domains",
            batches + merging + n,
            Usage(shown + listed + longest + n * domain, listed + n * naming),
        ),
    ]


def _tokens(text: str) -> int:
    return ceil(len(text.encode()) / BYTES_PER_TOKEN)
