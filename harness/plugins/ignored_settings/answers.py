"""Finds signs that a server ignored the decoding parameters that it was sent.

Compatible servers ignore what they do not know without an error. Some local servers, for example,
always take the likeliest token, whatever the temperature. Samples that are the same for another
reason, such as temperature 0, are reported as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from harness.analysis.identical_samples import identical_samples_warning
from harness.errors import HarnessError
from harness.records import TOOL_CALLS
from harness.scoring.validators import validator
from harness.store.index import AttemptIndex

FIRST = 200  # instances whose answers are read: what a server ignores, it ignores always
LONG = 200  # characters of an answer that is not drawn twice by chance
_FEWEST = 3  # instances with equal samples before they are reported


class _Line(Struct, gc=False):
    instance: str
    outcome: str
    request: dict[str, Any]
    text: str | None = None
    finish_reason: str | None = None
    without_logprobs: bool = False

    def parameter(self, name: str) -> Any:
        """Return a decoding parameter that was sent, or None."""
        decoding = self.request.get("decoding")  # an imported run may have none
        return decoding.get(name) if isinstance(decoding, dict) else None

    @property
    def is_whole(self) -> bool:
        """Whether the line has a complete answer in words."""
        answered = self.outcome in ("ok", "unparseable") and self.text is not None
        return answered and self.finish_reason not in TOOL_CALLS


def ignored_settings(index: AttemptIndex) -> list[str]:
    """Return a sentence for each decoding parameter that a run's server seems to ignore.

    Only the first answers to the first `FIRST` instances are read.
    """
    rows = index.last_rounds(1)
    instance = index.attempts.instance[rows]
    first = np.isin(instance, np.unique(instance)[:FIRST])
    answers = [answer for answer in index.read(_Line, rows[first], judged=False) if answer.is_whole]
    samples = list(_unsampled(answers))
    if not samples and (sentence := identical_samples_warning(index)):
        samples.append(sentence)
    return [*samples, *_unconstrained(answers), *_unlogged(answers)]


def _unsampled(answers: Iterable[_Line]) -> Iterator[str]:
    """Yield a sentence if the samples of each instance are equal although they were drawn."""
    texts: dict[str, list[str]] = {}
    for answer in answers:
        if answer.parameter("temperature") != 0 and answer.text is not None:
            texts.setdefault(answer.instance, []).append(answer.text)
    drawn = [samples for samples in texts.values() if len(samples) > 1 and len(samples[0]) >= LONG]
    if len(drawn) >= _FEWEST and all(len(set(samples)) == 1 for samples in drawn):
        yield (
            f"All samples of an instance are the same text, for each of {len(drawn):,} instances "
            "with long answers, although the temperature is not 0. The server seems to draw no "
            "samples, so more than one sample per instance adds nothing."
        )


def _unconstrained(answers: Iterable[_Line]) -> Iterator[str]:
    """Yield a sentence if complete answers break the JSON schema that was sent with them."""
    valid = [_keeps_schema(answer) for answer in answers if _schema(answer) is not None]
    if broken := valid.count(False):
        yield (
            f"{broken:,} of {len(valid):,} complete answers are not valid against the JSON schema "
            "that was sent (decoding.constraint): the server does not enforce it, or not all of it."
        )


def _unlogged(answers: Iterable[_Line]) -> Iterator[str]:
    """Yield a sentence if complete answers lack the log-probabilities that were requested."""
    requested = [answer for answer in answers if answer.parameter("logprobs") is not None]
    if missing := sum(answer.without_logprobs for answer in requested):
        yield (
            f"{missing:,} of {len(requested):,} complete answers came without log-probabilities "
            "(decoding.logprobs): the server does not return them."
        )


def _schema(answer: _Line) -> object:
    constraint = answer.parameter("constraint")
    return constraint.get("json_schema") if isinstance(constraint, dict) else None


def _keeps_schema(answer: _Line) -> bool | None:
    try:
        value = msgspec.json.decode(answer.text or "")
    except (msgspec.MsgspecError, RecursionError):
        return False
    try:
        return not validator(_schema(answer)).violations(value)
    except HarnessError:  # the schema is invalid, or validation takes too long
        return None
