"""What a build would ask, stage by stage, before it does: how many calls at most, and what for.

The number of calls is a bound, but for failed ones that are tried again: the messages that pass the
screening are known, and each later stage is taken to lose none. Tokens and cost are estimates: four
bytes to a token, constraints of `CONSTRAINT_TOKENS`, as many as a task may have, and answers that
use up their tokens.

>>> outlook(curation, screened.chats, prompts, models)[0].calls  # doctest: +SKIP
1800
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from harness.builders.wildifeval.agreement import times
from harness.builders.wildifeval.chats import Chat
from harness.builders.wildifeval.labels import LISTING_TOKENS, NAMING
from harness.builders.wildifeval.prompts import Prompts
from harness.builders.wildifeval.stage_model import StageModel
from harness.config.curation import Curation
from harness.records import Usage

BYTES_OF_A_TOKEN = 4
CONSTRAINT_TOKENS = 20


@dataclass(frozen=True, slots=True)
class StageOutlook:
    """What a stage would ask.

    calls: at most; input_tokens, output_tokens: about, of all of them.
    usd: about; None where the model's price is not known.
    """

    stage: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None


def outlook(
    curation: Curation, chats: Sequence[Chat], prompts: Prompts, models: Mapping[str, StageModel]
) -> list[StageOutlook]:
    """What the stages would ask about these chats, in their order."""
    sizes = sorted((len(chat.text.encode()) for chat in chats), reverse=True)
    n = max(1, round(curation.filter.keep * len(sizes))) if sizes else 0
    longest = sizes[:n]
    by = curation.domains
    batches = ceil(n / by.batch)
    own = {
        name: _tokens(prompts.text(name, message=""))
        for name in ("toxic", "constrained", "decompose")
    }
    naming = NAMING.max_tokens or 0
    kind = _tokens(prompts.text("category", constraint="")) + CONSTRAINT_TOKENS
    area = _tokens(prompts.text("domain", message="", domains=["x" * 20] * by.merged))
    shown = [min(size, by.shown) + 24 for size in longest]
    names = _tokens("x" * 20) * by.proposed * batches
    found: list[StageOutlook] = []

    def add(stage: str, calls: int, read: int, written: int) -> None:
        model = models[stage]
        usage = Usage(input_tokens=read, output_tokens=written)
        usd = None if model.price is None else model.price.cost(usage)
        found.append(StageOutlook(stage, model.name, calls, read, written, usd))

    def asked(stage: str, prompt: int) -> None:
        samples, decoding = times(curation.filter, "logprobs" in models[stage].features)
        calls = samples * len(sizes)
        read = samples * (_of_bytes(sum(sizes)) + prompt * len(sizes))
        add(stage, calls, read, calls * (decoding.max_tokens or 0))

    if curation.screen.toxicity == "model":
        asked("toxicity", own["toxic"])
    asked("filter", own["constrained"])
    read = _of_bytes(sum(longest))
    add("decompose", n, read + n * own["decompose"], n * curation.decompose.max_tokens)
    constraints = n * curation.constraints.most_of_a_task
    add("categories", constraints, constraints * kind, constraints * naming)
    add(
        "domains",
        batches + (1 if batches * by.proposed > by.merged else 0) + n,
        _of_bytes(sum(shown)) + names + read + n * area,
        LISTING_TOKENS * (by.proposed * batches + by.merged) + n * naming,
    )
    return found


def _tokens(text: str) -> int:
    return _of_bytes(len(text.encode()))


def _of_bytes(size: int) -> int:
    return ceil(size / BYTES_OF_A_TOKEN)
