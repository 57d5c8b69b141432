"""OpenAI's formats as the official SDK sees them, and their headers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
import openai
import pytest
from openai.types import Completion

from harness.plugins.mock.openai import OpenAIChat
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import Level, Unit


def level(unit: Unit, reset_s: float) -> Level:
    return Level(unit, limit=100, used=40, wanted=0, wait_s=0.0, reset_s=reset_s)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0s"),
        (0.0001, "1ms"),
        (0.02, "20ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (59.9989, "59.999s"),
        (59.9999, "1m0s"),
        (360, "6m0s"),
        (75.25, "1m15.25s"),
    ],
)
def test_resets_are_durations(seconds: float, told: str) -> None:
    headers = dict(OpenAIChat().headers("req", [level("requests", seconds)]))
    assert headers[b"x-ratelimit-reset-requests"] == told.encode()


def test_limits_are_told_by_their_names() -> None:
    levels = [level("requests", 1), level("tokens", 0), level("input tokens", 0)]
    assert OpenAIChat().headers("req", levels) == [
        (b"x-request-id", b"req"),
        (b"x-ratelimit-limit-requests", b"100"),
        (b"x-ratelimit-remaining-requests", b"60"),
        (b"x-ratelimit-reset-requests", b"1s"),
        (b"x-ratelimit-limit-tokens", b"100"),
        (b"x-ratelimit-remaining-tokens", b"60"),
        (b"x-ratelimit-reset-tokens", b"0s"),
    ]


def test_waiting_is_told_in_seconds_and_milliseconds() -> None:
    headers = dict(OpenAIChat().headers("req", [], retry_after=5.6215))
    assert (headers[b"retry-after"], headers[b"retry-after-ms"]) == (b"6", b"5622")
    assert list(dict(OpenAIChat().headers("req", []))) == [b"x-request-id"]


def test_a_limit_says_when_to_come_again() -> None:
    problem = OpenAIChat().rate_limited("m", level("tokens", 1), 0.02)
    expected = "(TPM): Limit 100, Used 40, Requested 0. Please try again in 20ms."
    assert expected in problem.message


Connect = Callable[..., AbstractAsyncContextManager[openai.AsyncOpenAI]]


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Connect:
    """Opens the SDK on a server; a test may choose the HTTP client."""

    @asynccontextmanager
    async def client(server: MockServer, api_key: str = "any") -> AsyncIterator[openai.AsyncOpenAI]:
        # Loopback has no TLS, and loading certificates is what takes the time.
        kinds = {"httpx2": openai.DefaultAsyncHttpxClient, "aiohttp": openai.DefaultAioHttpClient}
        transport = kinds[getattr(request, "param", "httpx2")](verify=False)
        async with openai.AsyncOpenAI(
            base_url=server.base_url, api_key=api_key, max_retries=0, http_client=transport
        ) as sdk:
            yield sdk

    return client


async def say(
    sdk: openai.AsyncOpenAI, text: str = "Hello.", model: str = "m", **options: object
) -> openai.types.chat.ChatCompletion:
    reply = await sdk.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": text}],
        **options,  # type: ignore[call-overload]
    )
    assert isinstance(reply, openai.types.chat.ChatCompletion)
    return reply


@pytest.mark.parametrize("connect", ["httpx2", "aiohttp"], indirect=True)
async def test_answers_repeat_and_differ_by_seed(connect: Connect) -> None:
    texts = []
    for _ in range(2):
        with MockServer() as server:
            async with connect(server) as sdk:
                texts.append(
                    [(await say(sdk, seed=s)).choices[0].message.content for s in range(3)]
                )
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 3


async def test_usage_and_choices_are_consistent(connect: Connect) -> None:
    with MockServer() as server:
        async with connect(server) as sdk:
            reply = await say(sdk, "x" * 400, model="gpt-4", n=3)
        stats = server.stats()
    assert reply.model == "gpt-4"
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in reply.choices}) == 3
    assert {choice.finish_reason for choice in reply.choices} == {"stop"}
    usage = reply.usage
    assert usage is not None
    assert 100 <= usage.prompt_tokens <= 110
    lengths = [len(choice.message.content or "") for choice in reply.choices]
    assert usage.completion_tokens == sum(-(-length // 4) for length in lengths)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert (stats.prompt_tokens, stats.completion_tokens) == (
        usage.prompt_tokens,
        usage.completion_tokens,
    )


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_length_is_obeyed(connect: Connect, name: str) -> None:
    with MockServer() as server:
        async with connect(server) as sdk:
            reply = await say(sdk, "Hello.", "m", **{name: 5})
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 5


@pytest.mark.parametrize("stop", [";", [";"], ["three", ";"]])
async def test_stop_is_obeyed(connect: Connect, stop: object) -> None:
    with MockServer(answers={"Count.": "One, two; three."}) as server:
        async with connect(server) as sdk:
            reply = await say(sdk, "Count.", stop=stop)
    assert reply.choices[0].message.content == "One, two"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        (
            {"temperature": 0.7},
            "unsupported_value",
            "'temperature' does not support 0.7 with this model. Only the default (1) value is",
        ),
        ({"max_tokens": 5}, "unsupported_parameter", "Use 'max_completion_tokens' instead."),
        ({"top_p": 0.9}, "unsupported_parameter", "'top_p' is not supported with this model."),
    ],
)
async def test_refused_parameters(
    connect: Connect, sent: dict[str, object], code: str, message: str
) -> None:
    with MockServer(refuse=["temperature", "max_tokens", "top_p"]) as server:
        async with connect(server) as sdk:
            with pytest.raises(openai.BadRequestError) as raised:
                await say(sdk, **sent)  # type: ignore[arg-type]
            await say(sdk, temperature=1, max_completion_tokens=5, top_p=None)
        assert server.stats().by_status == {400: 1, 200: 1}
    assert (raised.value.code, raised.value.param) == (code, next(iter(sent)))
    assert message in str(raised.value)


async def test_wrong_key(connect: Connect) -> None:
    with MockServer(api_key="sk-right-right-right") as server:
        async with connect(server, api_key="sk-wrong-wrong-wrong") as sdk:
            with pytest.raises(openai.AuthenticationError) as raised:
                await say(sdk)
            with pytest.raises(openai.AuthenticationError):
                await sdk.models.list()
        async with connect(server, api_key="sk-right-right-right") as sdk:
            await say(sdk)
            await sdk.models.list()
    assert raised.value.code == "invalid_api_key"
    assert "Incorrect API key provided." in str(raised.value)


async def test_missing_key() -> None:
    with MockServer(api_key="right") as server:
        async with httpx2.AsyncClient(verify=False) as client:
            reply = await client.post(f"{server.base_url}/chat/completions", content=b"{}")
    assert reply.status_code == 401
    assert reply.json()["error"]["message"].startswith("You didn't provide an API key.")


async def test_unknown_model(connect: Connect) -> None:
    with MockServer(models=["gpt-4"]) as server:
        async with connect(server) as sdk:
            with pytest.raises(openai.NotFoundError) as raised:
                await say(sdk, model="gpt-5")
            await say(sdk, model="gpt-4")
            assert [model.id async for model in sdk.models.list()] == ["gpt-4"]
    assert raised.value.code == "model_not_found"
    assert "The model `gpt-5` does not exist" in str(raised.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "Invalid request: Input data was truncated"),
        (b'{"model": "m"}', "messages"),
        (b'{"model": "m", "messages": []}', "$.messages"),
        (b'{"model": "m", "messages": [{"role": "user"}], "n": 0}', "$.n"),
        (b'{"model": "m", "messages": [{"role": "user"}], "stream": true}', "does not stream"),
    ],
)
async def test_senseless_request(body: bytes, message: str) -> None:
    with MockServer() as server:
        async with httpx2.AsyncClient(verify=False) as client:
            reply = await client.post(f"{server.base_url}/chat/completions", content=body)
        assert server.stats().by_status == {400: 1}
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]


async def test_content_in_parts_is_one_text(connect: Connect) -> None:
    with MockServer(answers={"Name a colour.": "Blue."}) as server:
        async with connect(server) as sdk:
            reply = await sdk.chat.completions.create(
                model="m",
                messages=[
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "Name a "},
                            {"type": "text", "text": "colour."},
                        ],
                    }
                ],
            )
    assert reply.choices[0].message.content == "Blue."


async def test_unrecorded_prompt_is_an_error(connect: Connect) -> None:
    with MockServer(answers={"Name a colour.": "Blue."}) as server:
        async with connect(server) as sdk:
            with pytest.raises(openai.BadRequestError, match="begins 'Name a number") as raised:
                await say(sdk, "Name a number.")
    assert raised.value.code == "no_recorded_answer"


async def test_rate_limit_and_its_headers(connect: Connect) -> None:
    with MockServer(requests_per_minute=2, tokens_per_minute=100_000) as server:
        async with connect(server) as sdk:
            raw = await sdk.chat.completions.with_raw_response.create(
                model="m", messages=[{"role": "user", "content": "Hello."}]
            )
            await say(sdk)
            with pytest.raises(openai.RateLimitError) as raised:
                await say(sdk)
        stats = server.stats()
    assert raw.headers["x-ratelimit-limit-requests"] == "2"
    assert raw.headers["x-ratelimit-remaining-requests"] == "1"
    assert re.fullmatch(r"1m0s|[45]\d(\.\d{1,3})?s", raw.headers["x-ratelimit-reset-requests"])
    assert int(raw.headers["x-ratelimit-remaining-tokens"]) == (
        100_000 - (stats.prompt_tokens + stats.completion_tokens) // 2
    )
    refused = raised.value.response.headers
    assert refused["x-ratelimit-remaining-requests"] == "0"
    assert refused["x-ratelimit-limit-tokens"] == "100000"
    assert 40_000 < int(refused["retry-after-ms"]) <= 60_000
    assert 40 < int(refused["retry-after"]) <= 60
    assert raised.value.code == "rate_limit_exceeded"
    assert "(RPM): Limit 2, Used 2, Requested 1" in str(raised.value)
    assert stats.by_status == {200: 2, 429: 1}
    assert stats.by_fault == {}


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


async def test_several_prompts_are_answered_one_by_one() -> None:
    with MockServer(answers={"One?": "1.", "Two?": ["2a.", "2b."]}) as server:
        reply = await complete(server, ["One?", "Two?"], n=2)  # type: ignore[arg-type]
    assert [choice.text for choice in reply.choices[:2]] == ["1.", "1."]
    assert {choice.text for choice in reply.choices[2:]} == {"2a.", "2b."}
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    with MockServer() as server:
        reply = await complete(server, ["Hello.", "Good bye."])  # type: ignore[arg-type]
    assert reply.choices[0].text != reply.choices[1].text


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
        ({"max_tokens": 0}, "length 0"),
        ({"prompt": ["a", "b"], "logprobs": 1}, "one prompt"),
        ({"prompt": []}, r"\$\.prompt"),
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
async def test_completions_that_say_nothing(fault: str, text: str, finish: str) -> None:
    with MockServer(faults={fault: 1}) as server:
        choice = (await complete(server)).choices[0]
    assert choice.text.startswith(text)
    assert bool(choice.text) == bool(text)
    assert choice.finish_reason == finish


async def test_the_sdk_reads_a_response(connect: Connect) -> None:
    with MockServer(answers={"A colour?": "Blue, I think."}, reasoning="field") as server:
        async with connect(server) as sdk:
            full = await sdk.responses.create(
                model="m", input="A colour?", reasoning={"summary": "auto"}, store=False
            )
            cut = await sdk.responses.create(
                model="m",
                input=[{"role": "user", "content": "A colour?"}],
                reasoning={"effort": "none"},
                max_output_tokens=16,
            )
            with pytest.raises(openai.BadRequestError, match="Unknown parameter: 'seed'"):
                await sdk.responses.create(model="m", input="Hi", extra_body={"seed": 1})
    assert (full.output_text, full.status) == ("Blue, I think.", "completed")
    assert full.output[0].type == "reasoning"
    assert full.usage is not None
    assert full.usage.output_tokens > full.usage.output_tokens_details.reasoning_tokens > 0
    assert (cut.output_text, cut.output[0].type) == ("Blue, I think.", "message")
