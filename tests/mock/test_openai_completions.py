"""The wire format as the official SDK sees it."""

from __future__ import annotations

import httpx2
import openai
import pytest
from openai.types import Completion

from harness.mock import MockServer


async def complete(server: MockServer, prompt: str = "Hello.", **options: object) -> Completion:
    async with openai.AsyncOpenAI(
        base_url=server.base_url,
        api_key="any",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(verify=False),
    ) as sdk:
        reply = await sdk.completions.create(model="m", prompt=prompt, **options)  # type: ignore[call-overload]
    assert isinstance(reply, Completion)
    return reply


async def test_a_continuation_is_short_unless_more_is_asked_for() -> None:
    with MockServer() as server:
        short = await complete(server, n=2)
        long = await complete(server, max_tokens=1000)
        stats = server.stats()
    assert [choice.finish_reason for choice in short.choices] == ["length", "length"]
    assert [len(choice.text) for choice in short.choices] == [64, 64]
    assert long.choices[0].finish_reason == "stop"
    for reply in (short, long):
        assert reply.object == "text_completion"
        assert reply.usage is not None
        written = sum(-(-len(choice.text) // 4) for choice in reply.choices)
        assert reply.usage.completion_tokens == written
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + written
    assert stats.by_path == {"/v1/completions": 2}
    assert stats.answered == 2


@pytest.mark.parametrize("stop", [", two", [", two"], ["three", ", two", ""]])
async def test_stop_strings_are_obeyed(stop: object) -> None:
    with MockServer(answers={"Count.": "One, two, three."}) as server:
        reply = await complete(server, "Count.", stop=stop)
    assert (reply.choices[0].text, reply.choices[0].finish_reason) == ("One", "stop")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"echo": True}, "'echo'"),
        ({"suffix": "."}, "'suffix'"),
        ({"logprobs": 6}, r"\$\.logprobs"),
        ({"max_tokens": 0}, "length 0 completion"),
        ({"prompt": ["a", "b"]}, r"\$\.prompt"),
    ],
)
async def test_what_is_not_supported_is_refused(option: dict[str, object], message: str) -> None:
    with (
        MockServer() as server,
        pytest.raises(openai.BadRequestError, match=message),
    ):
        await complete(server, **({"prompt": "a"} | option))  # type: ignore[arg-type]


async def test_streaming_is_refused() -> None:
    with MockServer() as server:
        async with httpx2.AsyncClient(verify=False) as client:
            body = {"model": "m", "prompt": "a", "stream": True}
            reply = await client.post(f"{server.base_url}/completions", json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "unsupported_parameter"


async def test_errors_are_those_of_the_vendor() -> None:
    with MockServer(api_key="right") as server, pytest.raises(openai.AuthenticationError):
        await complete(server)
    with MockServer(models=["davinci-002"]) as server, pytest.raises(openai.NotFoundError):
        await complete(server)
    with MockServer(requests_per_minute=1) as server:
        await complete(server)
        with pytest.raises(openai.RateLimitError) as raised:
            await complete(server)
    assert raised.value.response.headers["x-ratelimit-remaining-requests"] == "0"


@pytest.mark.parametrize(
    ("fault", "text", "finish"),
    [("empty", "", "stop"), ("content_filter", "", "content_filter"), ("refusal", "I'm", "stop")],
)
async def test_answers_that_say_nothing(fault: str, text: str, finish: str) -> None:
    with MockServer(faults={fault: 1}) as server:
        choice = (await complete(server)).choices[0]
    assert choice.text.startswith(text)
    assert bool(choice.text) == bool(text)
    assert choice.finish_reason == finish
