"""Requests for log-likelihoods of given answers, and the results in backends' replies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from harness.errors import Unparseable
from harness.records import Decoding, Message, Request, replace_surrogates


class AnswerLikelihood(Struct, frozen=True, array_like=True):
    """The log-likelihood of a given answer."""

    total: float  # sum of its tokens' log-probabilities (natural logarithm)
    greedy: bool  # whether each of its tokens is the likeliest
    tokens: int | None = None  # None in replies of earlier versions, and of texts in windows


_decode = msgspec.json.Decoder(list[AnswerLikelihood]).decode


def read_likelihoods(text: str, n: int) -> list[AnswerLikelihood]:
    """Parse the text of a reply with the log-likelihoods of ``n`` answers.

    Raises:
        Unparseable: If the text is not a list of ``n`` log-likelihoods.
    """
    try:
        likelihoods = _decode(replace_surrogates(text))
    except msgspec.DecodeError as error:
        raise Unparseable(f"These are not log-likelihoods ({error}).") from None
    if len(likelihoods) != n:
        raise Unparseable(f"{len(likelihoods)} log-likelihoods for {n} requests.")
    return likelihoods


def likelihood_request(
    request: Request, messages: Sequence[Message], n: int, window: int = 0
) -> Request:
    """Convert a request to one for the log-likelihoods of given answers, which all samples share.

    Args:
        request: The request. Of its decoding parameters, only ``extra`` is used.
        messages: The context, and the answers as assistant messages.
        n: The number of answers.
        window: As in `Request`.
    """
    # A server generates a token for each answer, which is not used.
    decoding = Decoding(temperature=0.0, max_tokens=n, extra=request.decoding.extra)
    return replace(
        request,
        messages=tuple(messages),
        decoding=decoding,
        loglikelihoods=True,
        window=window,
        sample=0,
        seed=None,
    )
