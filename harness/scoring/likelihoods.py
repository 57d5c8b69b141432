"""Requests for log-likelihoods of given answers, and the results in backends' replies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from harness.errors import Unparseable
from harness.records import Decoding, Message, Request, replace_surrogates


class AnswerLikelihood(Struct, frozen=True, array_like=True):
    """The log-likelihood of a given answer, and whether each of its tokens is the likeliest."""

    total: float  # sum of its tokens' log-probabilities (natural logarithm)
    greedy: bool
    tokens: int | None = None  # None in replies of earlier versions, and of texts in windows


_decode = msgspec.json.Decoder(list[AnswerLikelihood]).decode


def read_likelihoods(text: str, n: int) -> list[AnswerLikelihood]:
    """Return the log-likelihoods of ``n`` answers from the text of a reply.

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
    """Return a request for the log-likelihoods of the ``n`` assistant messages in ``messages``.

    Of the decoding parameters, only ``extra`` is kept. All samples share the call.
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
