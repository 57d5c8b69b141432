"""Log-likelihoods of given answers, from text completions that echo their prompts.

A server returns the prompt's tokens, each with its log-probability and the likeliest token at its
position, and then one generated token. An engine in this process returns log-probabilities by token
id.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from harness.errors import RequestRejected
from harness.records import Request

BROKEN = "\ufffd"  # stands for a part of a character that several tokens share

_NO_CONTEXT = (
    "The server gives no log-probability for the first token of a text without context.",
    "Set task.prefix_token to the model's first or last token, such as '<|endoftext|>'.",
)


def body(request: Request) -> Mapping[str, Any]:
    """Return the fields of a request for log-likelihoods, apart from the model."""
    texts = [message.content for message in request.sent_messages]
    prompt = texts if len(texts) > 1 else texts[0]
    return {"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}


def read(request: Request, echoes: Sequence[object]) -> str:
    """Return the text of a reply, given the field ``logprobs`` of each choice, in order.

    The text is a JSON list with a list for each answer: the sum of its tokens' log-probabilities,
    whether each token is the likeliest in its place, and the number of tokens.

    Raises:
        RequestRejected: If the tokens do not spell the text, no token begins in the answer, or a
            token of the answer has no log-probability.
        ValueError, LookupError, MsgspecError: If a field is missing or malformed.
    """
    pairs = request.continuations
    if len(echoes) != len(pairs):
        raise ValueError(f"{len(echoes)} choices for {len(pairs)} texts")
    sums = []
    for (context, continuation), echo in zip(pairs, echoes, strict=True):
        sums.append(_sum(context, continuation, msgspec.convert(echo, _Echo)))
    return msgspec.json.encode(sums).decode()


def joined(texts: Sequence[str]) -> str:
    """Return the text of one reply with the answers of several, which are texts from `read`."""
    answers: list[object] = []
    for text in texts:
        answers += msgspec.json.decode(text)
    return msgspec.json.encode(answers).decode()


def windows(
    prefix: Sequence[int], tokens: Sequence[int], length: int
) -> list[tuple[list[int], int]]:
    """Split a long text into windows, as lm-evaluation-harness does for a ``max_length``.

    Each token of the text is scored in one window, after at least one other token.

    Args:
        prefix: Ids of the tokens before the text, of which only the last one is used.
        tokens: Ids of the text's tokens.
        length: The maximum number of tokens in a window, including one that is generated.

    Returns:
        The token ids of each window, and how many of its last tokens are scored.

    Raises:
        RequestRejected: If the prefix or the text is empty, or ``length`` is less than 3.
    """
    if not prefix or not tokens or length < 3:
        problem = "A text is scored in windows of 3 tokens or more, after a prefix."
        raise RequestRejected(problem, "Set task.prefix_token and task.max_length.")
    step = length - 2
    windows_ = [([prefix[-1], *tokens[:step]], len(tokens[:step]))]
    for begin in range(step, len(tokens), step):
        end = min(begin + step, len(tokens))
        windows_.append(([*tokens[end - step - 1 : end]], end - begin))
    return windows_


def encoded(
    context: str, continuation: str, encode: Callable[[str], Sequence[int]]
) -> tuple[list[int], int]:
    """Return the ids of a text's tokens, and how many at the end belong to the continuation.

    Whitespace at the end of the context belongs to the continuation, as in lm-evaluation-harness.

    Raises:
        RequestRejected: If all tokens begin in the context.
    """
    tokens = list(encode(context + continuation))
    count = len(tokens) - len(encode(context.rstrip()))
    if count < 1:
        raise _no_token(continuation)
    return tokens, count


def summed(pairs: Sequence[tuple[float, float] | None]) -> tuple[float, bool, int]:
    """Sum the log-probabilities of a continuation's tokens.

    Args:
        pairs: For each token of the continuation, the log-probability of this token and that of
            the likeliest token in its place. None for the first token of a text, which has neither.

    Returns:
        The log-likelihood, whether each token is the likeliest, and the number of tokens.

    Raises:
        RequestRejected: If ``pairs`` contains None.
    """
    total = 0.0
    greedy = True
    for pair in pairs:
        if pair is None:
            raise RequestRejected(*_NO_CONTEXT)
        logprob, likeliest = pair
        total += logprob
        greedy = greedy and logprob == likeliest
    return total, greedy, len(pairs)


def _no_token(continuation: str) -> RequestRejected:
    return RequestRejected(
        f"No token begins in the answer {continuation[:80]!r}: they all begin before it."
    )


def logprobs(echoes: Sequence[object]) -> str:
    """Return the log-probabilities of the tokens in each field ``logprobs``, as JSON.

    The last token of each field is generated, so it is left out.

    Raises:
        MsgspecError: If a field is malformed.
    """
    columns = [msgspec.convert(echo, _Echo).token_logprobs[:-1] for echo in echoes]
    return msgspec.json.encode(columns).decode()


def total(text: str, counts: Sequence[int]) -> str:
    """Return the text of a reply with the sum of all scored log-probabilities.

    The text is a JSON list of one pair: the sum, and false.

    Args:
        text: The log-probabilities, as returned by `logprobs`.
        counts: For each window, how many of its last tokens are scored.

    Raises:
        RequestRejected: If a scored token has no log-probability.
    """
    windows_ = msgspec.json.decode(text, type=list[list[float | None]])
    complete = len(windows_) >= len(counts)
    sums = []
    for window, n in zip(windows_, counts, strict=False):
        scored = [logprob for logprob in window[-n:] if logprob is not None]
        complete = complete and len(scored) == n
        sums.append(sum(scored))
    if not complete:
        raise RequestRejected("The server does not return a log-probability for each token.")
    return msgspec.json.encode([(sum(sums), False)]).decode()


class _Echo(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]


def _sum(context: str, continuation: str, echo: _Echo) -> tuple[float, bool, int]:
    """Return the result of `summed` for an answer's tokens.

    Tokens that begin in the context, before its trailing whitespace, do not count: nearly always
    the tokens that lm-evaluation-harness leaves out.
    """
    text = context + continuation
    if echo.tokens[-1] and "".join(echo.tokens).lstrip() == text.lstrip():
        raise RequestRejected(
            "The server returns no log-probability for the generated token. llama-cpp-python's "
            "server does that if the text ends there, or if the model has no BOS token; in that "
            "case, those of the prompt are of other positions.",
            "Use another server for this model, such as vLLM's.",
        )
    tokens = echo.tokens[:-1]  # the last one is generated
    start = len(context.rstrip())
    first = _first(tokens, text, start)
    if first == len(tokens):
        raise _no_token(continuation)
    pairs: list[tuple[float, float] | None] = []
    scored = zip(echo.token_logprobs[first:-1], echo.top_logprobs[first:-1], strict=True)
    for logprob, top in scored:
        likeliest = max(top.values()) if top else inf
        pairs.append(None if logprob is None else (logprob, likeliest))
    return summed(pairs)


def _first(tokens: Sequence[str], text: str, start: int) -> int:
    """Return the index of the first token that begins at ``start`` or later.

    Tokens are matched from the end, since a server may add tokens at the beginning. If several
    tokens share a character, vLLM returns it in the last of them.

    Raises:
        RequestRejected: If the tokens do not spell the text.
    """
    first = number = len(tokens)
    # Broken and empty tokens from ``number`` on stand for ``fewest`` to ``largest`` characters.
    position = len(text)
    fewest = 0
    largest = 0
    while number and (
        position > start or largest or (position == start and not tokens[number - 1])
    ):
        number -= 1
        token = tokens[number]
        if BROKEN in token or not token:
            fewest = fewest or min(1, len(token))
            largest = largest + max(1, len(token))
            continue
        if not position:  # a token before the text
            return number + 1
        ends = range(position - fewest, position - largest - 1, -1)
        end = next((end for end in ends if text.endswith(token, 0, max(0, end))), None)
        if end is None or end < start <= position != end:
            break
        if largest and end >= start:
            first = number + 1
        position = end - len(token)
        fewest = 0
        largest = 0
        if position >= start:
            first = number
    else:
        if position <= start and not largest:
            return first
        if start == 0 and largest:
            return 0
    raise RequestRejected(f"The server's tokens do not spell the text that ends {text[-80:]!r}.")
