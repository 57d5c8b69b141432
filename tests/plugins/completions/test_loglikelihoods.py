from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from harness.calls.budget import token_bounds
from harness.calls.keys import call_key
from harness.errors import RequestRejected
from harness.plugins.completions.backend import OpenAICompletionsBackend
from harness.plugins.completions.loglikelihoods import encoded, read, total, windows
from harness.plugins.mock.openai import END, scored, tokenise
from harness.plugins.mock.server import MockServer
from harness.records import Decoding, Message, Origin, Request
from tests.backends.answering import answering, transient


def asked(*messages: tuple[str, str]) -> Request:
    turns = tuple(Message(role, text) for role, text in messages)  # type: ignore[arg-type]
    answers = sum(turn.role == "assistant" for turn in turns)
    decoding = Decoding(0.0, answers)
    return Request("m", turns, decoding, 0, Origin("a", 0, 1), loglikelihoods=True)


CHOICES = asked(("user", "Is 7 prime? "), ("assistant", "Yes, it is"), ("assistant", "No"))


def echo(tokens: Sequence[str], logprobs: Sequence[float | None] | None = None) -> dict[str, Any]:
    """The field of a choice, where the likeliest token is always the text's own."""
    found = [None, *[-1.0] * (len(tokens) - 1)] if logprobs is None else logprobs
    pairs = zip(tokens, found, strict=True)
    top = [None if one is None else {token: one, " else": one - 1} for token, one in pairs]
    return {"tokens": [*tokens, " x"], "token_logprobs": [*found, -9.0], "top_logprobs": [*top, {}]}


async def generated(url: str, request: Request) -> str:
    backend = OpenAICompletionsBackend(None, url, secret=str, concurrency=1, timeout_s=5)
    assert "loglikelihoods" in backend.features
    try:
        return (await backend.generate(request)).text
    finally:
        await backend.aclose()


async def test_one_call_returns_the_log_likelihood_of_each_answer() -> None:
    with MockServer() as server:
        found = json.loads(await generated(server.base_url, CHOICES))
        stats = server.stats()
    expected = []
    for text in ("Is 7 prime? Yes, it is", "Is 7 prime? No"):
        first = len(tokenise("Is 7 prime?"))
        positions = (scored("m", text).positions or ())[first:-1]
        total = math.fsum(position.logprob for position in positions)
        greedy = all(position.logprob == position.likeliest[0][1] for position in positions)
        expected.append([pytest.approx(total, abs=1e-12), greedy, len(positions)])
    assert found == expected
    assert stats.requests == 1
    assert stats.completion_tokens == 2


async def test_a_server_that_takes_no_list_of_prompts_gets_them_one_by_one() -> None:
    prompts: list[str | list[str]] = []

    async def forward(request: web.Request) -> web.Response:
        """Fail for a list with the status 500, as llama-cpp-python's server does."""
        body = await request.json()
        prompts.append(body["prompt"])
        if isinstance(body["prompt"], list):
            return web.json_response({"error": {"message": "not a text"}}, status=500)
        async with (
            ClientSession() as session,
            session.post(f"{provider.base_url}/completions", json=body) as answer,
        ):
            return web.json_response(await answer.json())

    application = web.Application()
    application.router.add_post("/v1/completions", forward)
    with MockServer() as provider:
        expected = await generated(provider.base_url, CHOICES)
        async with TestServer(application) as server:
            url = str(server.make_url("/v1"))
            backend = OpenAICompletionsBackend(None, url, secret=str, concurrency=1, timeout_s=5)
            replies = [await backend.generate(CHOICES) for _ in range(2)]
            await backend.aclose()
    texts = ["Is 7 prime? Yes, it is", "Is 7 prime? No"]
    assert prompts == [texts, *texts, *texts]
    for reply in replies:
        assert json.loads(reply.text) == json.loads(expected)
        assert reply.usage is not None
        assert reply.usage.output_tokens == 2


async def test_a_server_that_fails_for_any_prompt_is_not_sent_them_one_by_one() -> None:
    with answering('{"error": {"message": "out of memory"}}', 500) as (url, received):
        with transient("server_failed", "out of memory"):
            await generated(url, CHOICES)
        assert len(received) == 2


async def test_the_texts_are_sent_as_one_completion_that_echoes_them() -> None:
    choices = [
        {"index": 1, "text": "", "logprobs": echo(["Is 7 prime?", " No"])},
        {"index": 0, "text": "", "logprobs": echo(["Is 7 prime?", " Yes", ", it is"])},
    ]
    with answering(json.dumps({"choices": choices, "model": "m"})) as (url, received):
        assert await generated(url, CHOICES) == "[[-2.0,true,2],[-1.0,true,1]]"
    assert json.loads(received[0].partition(b"\r\n\r\n")[2]) == {
        "model": "m",
        "prompt": ["Is 7 prime? Yes, it is", "Is 7 prime? No"],
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 1,
        "echo": True,
    }


@pytest.mark.parametrize(
    "choices",
    [
        [{"text": "Is 7 prime? No", "logprobs": None}] * 2,
        [{"text": "", "logprobs": echo(["Is 7 prime?", " No"])}],
        [{"text": "", "logprobs": {"tokens": ["a"]}}] * 2,
    ],
)
async def test_a_reply_without_them_is_malformed(choices: list[dict[str, object]]) -> None:
    body = json.dumps({"choices": choices, "model": "m"})
    with answering(body) as (url, _), transient("malformed"):
        await generated(url, CHOICES)


@pytest.mark.parametrize(
    ("context", "answer", "tokens", "counted"),
    [
        ("ab", "cd", ["ab", "cd"], 1),
        ("ab", "cd", ["<s>", "ab", "c", "d"], 2),  # a token that is not in the text
        ("ab ", "cd", ["ab", " cd"], 1),  # the space belongs to the answer
        ("ab", "cd", ["a", "bc", "d"], 1),  # a token that both share does not count
        ("", "cd", ["<s>", "cd"], 1),
        ("a\ufffd", "c", ["a\ufffd", "c"], 1),
        ("aé", "cd", ["a", "\ufffd", "\ufffd", "cd"], 1),  # a character of two tokens
        ("a", "écd", ["a", "\ufffd", "\ufffd", "cd"], 3),
        ("a", "cdé", ["a", "cd", "\ufffd", "\ufffd"], 3),
        ("", "éa", ["\ufffd", "\ufffd", "a"], 3),
        ("a", " éé", ["a", " \ufffd", "\ufffd", "", "é"], 4),
        ("aé", "é b", ["a", "", "é", "", "é", " ", "b"], 4),  # as vLLM returns them
        ("aé", " b👍", ["a", "", "é", " ", "b", "", "", "", "👍"], 6),
        ("é a", "é", ["\ufffd", "", " ", "a", "", "é"], 2),
        ("a\ufffdb", "é", ["a", "", "", "", "b", "", "é"], 2),
        ("a", "b\ufffdé", ["a", "b", "", "", "", "", "é"], 6),
        ("", "éa", ["<s>", "", "é", "a"], 3),
    ],
)
def test_tokens_that_begin_after_the_context_count(
    context: str, answer: str, tokens: list[str], counted: int
) -> None:
    request = asked(("user", context), ("assistant", answer))
    logprobs = [-1.0] * len(tokens)
    assert json.loads(read(request, [echo(tokens, logprobs)])) == [[-counted, True, counted]]


@pytest.mark.parametrize(
    ("context", "answer", "tokens", "said"),
    [
        ("ab", "cd", ["ab", "ce"], "do not spell"),
        ("aé", "éb", ["a", "\ufffd", "\ufffd", "\ufffd", "\ufffd", "b"], "do not spell"),
        ("é", "é", ["\ufffd", "", "", "é"], "do not spell"),
        ("a\ufffd", "é", ["a", "", "", "", "", "é"], "do not spell"),
        ("ab", "cd", ["a", "bcd"], "they all begin before it"),
    ],
)
def test_an_unclear_boundary_is_an_error(
    context: str, answer: str, tokens: list[str], said: str
) -> None:
    with pytest.raises(RequestRejected, match=said):
        read(asked(("user", context), ("assistant", answer)), [echo(tokens)])


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("a b", " c", (["a", "b", "c"], 1)),
        ("a b ", "c d", (["a", "b", "c", "d"], 2)),  # the space belongs to the answer
        ("", "c", (["c"], 1)),
        ("a b", "c d", (["a", "bc", "d"], 1)),  # a token that both share does not count
    ],
)
def test_the_answers_tokens_follow_those_of_the_context(
    context: str, answer: str, expected: tuple[list[str], int]
) -> None:
    words = ["a", "b", "c", "d", "bc"]
    tokens, count = encoded(context, answer, lambda text: [*map(words.index, text.split())])
    assert ([words[token] for token in tokens], count) == expected
    with pytest.raises(RequestRejected, match="they all begin before it"):
        encoded("a b", " ", lambda text: [*map(words.index, text.split())])


def test_a_first_token_without_a_log_probability_is_an_error_with_a_remedy() -> None:
    with pytest.raises(RequestRejected, match="without context") as raised:
        read(asked(("user", ""), ("assistant", "cd")), [echo(["cd"])])
    assert "prefix_token" in raised.value.remedy


def test_log_probabilities_of_other_positions_are_no_result() -> None:
    """llama-cpp-python's, without a BOS: token i has the log-probability at position i + 1."""
    prompt_alone = {name: values[:-1] for name, values in echo(["ab", "cd", "c"]).items()}
    with pytest.raises(RequestRejected, match="no log-probability for the generated token"):
        read(asked(("user", "ab"), ("assistant", "cdc")), [prompt_alone])


def test_an_answer_is_greedy_if_each_of_its_tokens_is_the_likeliest() -> None:
    likeliest = echo(["ab", "c", "d"])
    other = {**likeliest, "top_logprobs": [None, {"c": -1.0}, {"d": -1.0, "e": -0.5}, {}]}
    request = asked(("user", "ab"), ("assistant", "cd"))
    assert json.loads(read(request, [likeliest])) == [[-2.0, True, 2]]
    assert json.loads(read(request, [other])) == [[-2.0, False, 2]]


@pytest.mark.parametrize(
    ("n", "length", "expected"),
    [
        (3, 5, [([0, 1, 2, 3], 3)]),
        (4, 5, [([0, 1, 2, 3], 3), ([1, 2, 3, 4], 1)]),
        (5, 4, [([0, 1, 2], 2), ([2, 3, 4], 2), ([3, 4, 5], 1)]),
        (2, 3, [([0, 1], 1), ([1, 2], 1)]),
    ],
)
def test_each_token_is_scored_in_one_window(
    n: int, length: int, expected: list[tuple[list[int], int]]
) -> None:
    assert windows([7, 0], range(1, n + 1), length) == expected


@pytest.mark.parametrize(("prefix", "n", "length"), [([], 3, 5), ([0], 0, 5), ([0], 3, 2)])
def test_what_cannot_be_split_into_windows_is_rejected(
    prefix: list[int], n: int, length: int
) -> None:
    with pytest.raises(RequestRejected, match="in windows"):
        windows(prefix, range(n), length)


async def test_a_text_in_windows_is_the_sum_of_its_tokens() -> None:
    text = "Is 7 prime? Surely, naïve Zoë, and so on."
    asked_in = replace(asked(("user", END), ("assistant", text)), window=8)
    with MockServer() as server:
        ((found, greedy),) = json.loads(await generated(server.base_url, asked_in))
        stats = server.stats()
    expected = 0.0
    tokens = tokenise(text)
    numbers = range(1, len(tokens) + 1)
    for window, count in windows([0], numbers, 8):
        of_window = "".join((END, *tokens)[number] for number in window)
        positions = (scored("m", of_window).positions or ())[:-1]
        expected += sum(position.logprob for position in positions[-count:])
    assert (found, greedy) == (pytest.approx(expected, abs=1e-12), False)
    assert stats.requests == 1


@pytest.mark.parametrize("text", ["[[-1.0]]", "[[-1.0,null],[-1.0]]", "[]"])
def test_windows_without_all_log_probabilities_are_rejected(text: str) -> None:
    with pytest.raises(RequestRejected, match="each token"):
        total(text, [2, 1])


def test_each_answer_stands_behind_its_own_context() -> None:
    two = asked(
        ("user", "a"), ("assistant", "b"), ("assistant", "c"), ("user", "d"), ("assistant", "e")
    )
    assert two.continuations == [("a", "b"), ("a", "c"), ("d", "e")]
    assert [message.content for message in two.sent_messages] == ["ab", "ac", "de"]
    assert token_bounds(two) == (token_bounds(asked(("user", "a"), ("assistant", "b")))[0] * 3, 3)


def test_log_likelihoods_have_keys_of_their_own() -> None:
    answer = replace(CHOICES, loglikelihoods=False)
    assert call_key("b", "e", CHOICES) != call_key("b", "e", answer)
