"""Log-probabilities in both of OpenAI's forms, as the official SDK sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import exp, log
from typing import Any

import openai
import pytest

from harness.plugins.mock.answers import SURE, Answer, positions
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest

UNSURE = Answer("No", [{"Yes": log(0.7), "No": log(0.2), "Maybe": log(0.1)}, {".": 0.0}])


@asynccontextmanager
async def connected(server: MockServer) -> AsyncIterator[openai.AsyncOpenAI]:
    transport = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(
        base_url=server.base_url, api_key="any", max_retries=0, http_client=transport
    ) as sdk:
        yield sdk


async def chat(server: MockServer, said: str = "Is it?", **options: Any) -> Any:
    async with connected(server) as sdk:
        reply = await sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": said}], **options
        )
    return reply.choices[0]


async def complete(server: MockServer, said: str = "Is it?", **options: Any) -> Any:
    async with connected(server) as sdk:
        return (await sdk.completions.create(model="m", prompt=said, **options)).choices[0]


async def test_a_chat_tells_the_likeliest_tokens_of_each_position() -> None:
    with MockServer(answers={"Is it?": UNSURE}) as server:
        choice = await chat(server, logprobs=True, top_logprobs=2)
    first, second = choice.logprobs.content
    # What was written need not be the likeliest.
    assert (first.token, first.logprob, first.bytes) == ("No", log(0.2), [78, 111])
    assert [(one.token, one.logprob) for one in first.top_logprobs] == [
        ("Yes", log(0.7)),
        ("No", log(0.2)),
    ]
    assert (second.token, len(second.top_logprobs)) == (".", 1)
    assert choice.message.content == "No"


async def test_a_completion_tells_what_was_written_too() -> None:
    with MockServer(answers={"Is it?": UNSURE}) as server:
        told = (await complete(server, logprobs=1)).logprobs
    assert told.tokens == ["No", "."]
    assert told.token_logprobs == [log(0.2), 0.0]
    assert told.top_logprobs == [{"Yes": log(0.7), "No": log(0.2)}, {".": 0.0}]
    assert told.text_offset == [6, 8]


async def test_nobody_is_told_who_does_not_ask() -> None:
    with MockServer(answers={"Is it?": UNSURE}) as server:
        assert (await chat(server)).logprobs is None
        assert (await chat(server, logprobs=False)).logprobs is None
        assert (await complete(server)).logprobs is None
        told = (await chat(server, logprobs=True)).logprobs
    assert [(one.token, one.top_logprobs) for one in told.content] == [("No", []), (".", [])]


async def test_an_invented_text_is_nearly_sure_and_its_tokens_make_it_up() -> None:
    with MockServer() as server:
        choice = await chat(server, logprobs=True, top_logprobs=20)
        short = await complete(server, logprobs=5, max_tokens=4)
    told = choice.logprobs.content
    assert "".join(one.token for one in told) == choice.message.content
    for one in told:
        assert one.logprob == log(SURE)
        assert one.top_logprobs[0].token == one.token
        assert len({other.token for other in one.top_logprobs}) == 20
        assert 0.98 < sum(exp(other.logprob) for other in one.top_logprobs) <= 1
    assert 0 < len(short.logprobs.tokens) <= 4
    assert short.text.startswith("".join(short.logprobs.tokens))


@pytest.mark.parametrize("text", ["", " ", "Yes.", "\n a  b_c\n\n", "…—é 😀 1,000.5\t"])
def test_tokens_make_up_any_text(text: str) -> None:
    assert "".join(one.token for one in positions(text, (), 1)) == text


async def test_a_function_may_answer_with_both() -> None:
    def judge(ask: MockRequest, index: int) -> str | Answer:
        yes = 0.9 if "kind" in ask.prompt else 0.1
        return Answer("Yes" if yes > 0.5 else "No", [{"Yes": log(yes), "No": log(1 - yes)}])

    with MockServer(answers=judge) as server:
        kind = await chat(server, "Is it kind?", logprobs=True, top_logprobs=5)
        long = await chat(server, "Is it long?", logprobs=True, top_logprobs=5)
    assert (kind.message.content, long.message.content) == ("Yes", "No")
    assert exp(kind.logprobs.content[0].logprob) == pytest.approx(0.9)
    assert exp(long.logprobs.content[0].top_logprobs[1].logprob) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_logprobs": 5}, "only allowed when 'logprobs' is enabled"),
        ({"logprobs": True, "top_logprobs": 21}, r"\$\.top_logprobs"),
        ({"logprobs": 5}, r"\$\.logprobs"),
    ],
)
async def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with MockServer() as server, pytest.raises(openai.BadRequestError, match=message):
        await chat(server, **options)


@pytest.mark.parametrize("fault", ["empty", "refusal", "content_filter", "reasoning_only"])
async def test_an_answer_that_is_none_tells_nothing(fault: str) -> None:
    with MockServer(faults={fault: 1}) as server:
        choice = await chat(server, logprobs=True, top_logprobs=5)
    assert choice.logprobs is None
