"""Anthropic's format as the official SDK sees it, and its headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta

import anthropic
import httpx2
import pytest

from harness.plugins.mock.anthropic import AnthropicMessages
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import Headers, Level, Unit


def level(unit: Unit, limit: int, reset_s: float = 0.0) -> Level:
    return Level(unit, limit, used=40, wanted=0, wait_s=0.0, reset_s=reset_s)


def told(headers: Headers, unit: str) -> list[str]:
    found = {name.decode(): value.decode() for name, value in headers}
    names = [f"anthropic-ratelimit-{unit}-{part}" for part in ("limit", "remaining", "reset")]
    return [found[name] for name in names if name in found]


def moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def test_resets_are_moments() -> None:
    before = datetime.now(UTC)
    headers = AnthropicMessages().headers("req", [level("requests", 100, reset_s=30)])
    limit, remaining, reset = told(headers, "requests")
    after = datetime.now(UTC)
    assert (limit, remaining) == ("100", "60")
    wait = timedelta(seconds=30)
    assert before + wait <= moment(reset) <= after + wait + timedelta(seconds=1)


def test_waiting_is_told_in_whole_seconds_and_in_milliseconds() -> None:
    headers = AnthropicMessages().headers("req", [], retry_after=5.6)
    assert headers[1:] == [(b"retry-after", b"6"), (b"retry-after-ms", b"5600")]


Connect = Callable[..., AbstractAsyncContextManager[anthropic.AsyncAnthropic]]
HELLO = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello."}]}
VERSION = {"anthropic-version": "2026-10-21"}
OLD = {"anthropic-version": "2023-06-01"}


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Connect:
    """Opens the SDK on a server; a test may choose the HTTP client."""

    @asynccontextmanager
    async def client(
        server: MockServer, api_key: str = "any"
    ) -> AsyncIterator[anthropic.AsyncAnthropic]:
        # Loopback has no TLS, and loading certificates is what takes the time.
        kinds = {
            "httpx2": anthropic.DefaultAsyncHttpxClient,
            "aiohttp": anthropic.DefaultAioHttpClient,
        }
        transport = kinds[getattr(request, "param", "httpx2")](verify=False)
        async with anthropic.AsyncAnthropic(
            base_url=server.url, api_key=api_key, max_retries=0, http_client=transport
        ) as sdk:
            yield sdk

    return client


async def say(
    sdk: anthropic.AsyncAnthropic, text: str = "Hello.", **options: object
) -> anthropic.types.Message:
    messages = [{"role": "user", "content": text}]
    reply = await sdk.messages.create(**(HELLO | {"messages": messages} | options))  # type: ignore[call-overload]
    assert isinstance(reply, anthropic.types.Message)
    return reply


def text_of(reply: anthropic.types.Message) -> str:
    (block,) = reply.content
    assert block.type == "text"
    return block.text


async def post(server: MockServer, body: object, headers: dict[str, str] = VERSION) -> str:
    """The message of the error that a body gets."""
    async with httpx2.AsyncClient(verify=False) as client:
        reply = await client.post(f"{server.url}/v1/messages", json=body, headers=headers)
    assert reply.status_code == 400
    answer = reply.json()
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["request_id"] == reply.headers["request-id"]
    message: str = answer["error"]["message"]
    return message


@pytest.mark.parametrize("connect", ["httpx2", "aiohttp"], indirect=True)
async def test_an_answer_and_what_it_cost(connect: Connect) -> None:
    with MockServer() as server:
        async with connect(server) as sdk:
            reply = await say(sdk, "x" * 400, model="claude-sonnet-5-5", system="Be brief.")
            raw = await sdk.messages.with_raw_response.create(**HELLO)  # type: ignore[call-overload]
        stats = server.stats()
    assert (reply.role, reply.model, reply.stop_reason) == (
        "assistant",
        "claude-sonnet-5-5",
        "end_turn",
    )
    assert (reply.stop_sequence, reply.stop_details) == (None, None)
    assert reply.usage.output_tokens == -(-len(text_of(reply)) // 4)
    assert 100 <= reply.usage.input_tokens <= 120
    assert reply.usage.cache_read_input_tokens == 0
    assert reply.usage.output_tokens_details is None
    assert raw.headers["request-id"].startswith("req_")
    assert not any(name.startswith("anthropic-ratelimit") for name in raw.headers)
    assert (stats.answered, stats.by_path) == (2, {"/v1/messages": 2})
    assert stats.prompt_tokens > reply.usage.input_tokens


async def test_recordings_know_system_turns_and_blocks(connect: Connect) -> None:
    seen = []
    with MockServer(answers=lambda ask, _: seen.append(ask.turns) or "Blue.") as server:  # type: ignore[func-returns-value]
        async with connect(server) as sdk:
            for system in ("Be brief.", [{"type": "text", "text": "Be brief."}]):
                reply = await say(
                    sdk,
                    system=system,
                    messages=[
                        {"role": "user", "content": "Hi."},
                        {"role": "assistant", "content": [{"type": "text", "text": "Hi!"}]},
                        {
                            "role": "user",
                            "content": [
                                {"type": "text", "text": "A "},
                                {"type": "text", "text": "colour?"},
                            ],
                        },
                    ],
                )
                assert text_of(reply) == "Blue."
    assert [(turn.role, turn.text) for turn in seen[0]] == [
        ("system", "Be brief."),
        ("user", "Hi."),
        ("assistant", "Hi!"),
        ("user", "A colour?"),
    ]
    assert seen[0] == seen[1]


async def test_stop_sequences_and_length(connect: Connect) -> None:
    with MockServer(answers={"Hello.": "One, two; three."}) as server:
        async with connect(server) as sdk:
            stopped = await say(sdk, stop_sequences=["three", ";", "x"])
            cut = await say(sdk, max_tokens=2)
            nothing = await say(sdk, max_tokens=0)
    assert (text_of(stopped), stopped.stop_reason, stopped.stop_sequence) == (
        "One, two",
        "stop_sequence",
        ";",
    )
    assert (text_of(cut), cut.stop_reason, cut.stop_sequence) == ("One, two", "max_tokens", None)
    assert cut.usage.output_tokens == 2
    assert (nothing.content, nothing.stop_reason) == ([], "max_tokens")


async def test_sampling_parameters_are_for_the_older_version(connect: Connect) -> None:
    with MockServer() as server:
        async with connect(server) as sdk:
            for name in ("temperature", "top_p", "top_k"):
                with pytest.raises(TypeError, match=name):
                    await say(sdk, **{name: 1})  # type: ignore[arg-type]
                with pytest.raises(anthropic.BadRequestError) as raised:
                    await say(sdk, extra_body={name: 1})
                assert raised.value.api_message == f"{name}: Extra inputs are not permitted"
                await say(sdk, extra_body={name: 1}, extra_headers=OLD)


async def test_what_the_current_api_takes_besides(connect: Connect) -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    with MockServer() as server:
        async with connect(server) as sdk:
            await say(
                sdk,
                output_config={"effort": "xhigh", "format": form},
                thinking={"type": "adaptive", "display": "summarized"},
                metadata={"user_id": "u"},
                service_tier="standard_only",
                tools=[{"name": "t", "input_schema": {"type": "object"}}],
            )
            with pytest.raises(anthropic.BadRequestError, match=r"format\.schema: Field required"):
                await say(sdk, output_config={"format": {"type": "json_schema"}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"model": None}, "model: Field required"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"max_tokens": "9"}, "max_tokens: Expected `int`, got `str`"),
        ({"n": 2}, "n: Extra inputs are not permitted"),
        ({"seed": 1}, "seed: Extra inputs are not permitted"),
        ({"stop": ["END"]}, "stop: Extra inputs are not permitted"),
        ({"stop_sequences": ["END", "\n"]}, "stop_sequences: each stop sequence must contain "),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0: all messages must have"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
            "messages: text content blocks must be non-empty",
        ),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages.0.role: Input should be"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages.0.role: Input should be"),
        ({"thinking": {"type": "much"}}, "thinking.type: Invalid enum value 'much'"),
    ],
)
async def test_senseless_request(change: dict[str, object], message: str) -> None:
    body = {name: value for name, value in (HELLO | change).items() if value is not None}
    with MockServer() as server:
        assert (await post(server, body)).startswith(message)
        assert server.stats().by_status == {400: 1}


async def test_older_version_bounds_the_temperature() -> None:
    with MockServer() as server:
        message = await post(server, HELLO | {"temperature": 1.5}, OLD)
    assert message.startswith("temperature: ")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "anthropic-version: header is required"),
        (
            {"anthropic-version": "2023-10-01"},
            'anthropic-version: "2023-10-01" is not a valid version',
        ),
    ],
)
async def test_version_is_required(headers: dict[str, str], message: str) -> None:
    with MockServer() as server:
        assert await post(server, HELLO, headers) == message


@pytest.mark.parametrize("body", [b"{", b'{"model": "\xff"}', b"[" * 100_000])
async def test_body_that_is_no_json(body: bytes) -> None:
    with MockServer() as server:
        async with httpx2.AsyncClient(verify=False) as client:
            reply = await client.post(f"{server.url}/v1/messages", content=body, headers=VERSION)
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


async def test_wrong_key(connect: Connect) -> None:
    with MockServer(api_key="sk-ant-right") as server:
        async with connect(server, api_key="sk-ant-wrong") as sdk:
            with pytest.raises(anthropic.AuthenticationError) as raised:
                await say(sdk)
            with pytest.raises(anthropic.AuthenticationError):
                await sdk.models.list()
        async with connect(server, api_key="sk-ant-right") as sdk:
            await say(sdk)
            await sdk.models.list()
    assert raised.value.type == "authentication_error"
    assert raised.value.api_message == "Invalid bearer token"
    assert raised.value.request_id


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "x-api-key header is required"),
        ({"x-api-key": "wrong"}, "invalid x-api-key"),
        ({"x-api-key": "wrong", "authorization": "Bearer right"}, "invalid x-api-key"),
        ({"x-api-key": "right", "authorization": "Bearer wrong"}, None),
    ],
)
async def test_key_in_its_own_header_counts(headers: dict[str, str], message: str | None) -> None:
    with MockServer(api_key="right") as server:
        async with httpx2.AsyncClient(verify=False) as client:
            reply = await client.post(
                f"{server.url}/v1/messages", json=HELLO, headers=VERSION | headers
            )
    assert reply.status_code == (401 if message else 200)
    assert reply.json().get("error", {}).get("message") == message


async def test_models_are_told_in_the_form_of_who_asks(connect: Connect) -> None:
    with MockServer(models=["claude-1", "claude-2"]) as server:
        async with connect(server) as sdk:
            assert [model.id async for model in sdk.models.list()] == ["claude-1", "claude-2"]
            with pytest.raises(anthropic.NotFoundError) as raised:
                await say(sdk, model="claude-3")
        async with httpx2.AsyncClient(verify=False) as client:
            assert (await client.get(f"{server.base_url}/models")).json()["object"] == "list"
    assert (raised.value.type, raised.value.api_message) == ("not_found_error", "model: claude-3")


@pytest.mark.parametrize(
    ("fault", "error", "kind"),
    [
        ("400", anthropic.BadRequestError, "invalid_request_error"),
        ("429", anthropic.RateLimitError, "rate_limit_error"),
        ("500", anthropic.InternalServerError, "api_error"),
        ("503", anthropic.ServiceUnavailableError, "api_error"),
        ("529", anthropic.OverloadedError, "overloaded_error"),
    ],
)
async def test_faults_that_are_statuses(
    connect: Connect, fault: str, error: type[anthropic.APIStatusError], kind: str
) -> None:
    with MockServer(faults={fault: 1}, retry_after=1.5) as server:
        async with connect(server) as sdk:
            with pytest.raises(error) as raised:
                await say(sdk)
        assert server.stats().by_fault == {fault: 1}
    assert raised.value.type == kind
    assert raised.value.response.headers.get("retry-after") == ("2" if fault == "429" else None)


async def test_answers_that_say_nothing(connect: Connect) -> None:
    said = {}
    with MockServer() as server:
        async with connect(server) as sdk:
            for fault in ("empty", "refusal", "content_filter", "reasoning_only"):
                server.change(faults={fault: 1})
                reply = await say(sdk, fault)
                said[fault] = (reply.stop_reason, len(reply.content))
                category = reply.stop_details.type if reply.stop_details else None
                assert category == ("refusal" if reply.stop_reason == "refusal" else None)
        assert server.stats().answered == 2
    assert said == {
        "empty": ("end_turn", 0),
        "refusal": ("refusal", 1),
        "content_filter": ("refusal", 0),
        "reasoning_only": ("max_tokens", 0),
    }


async def test_unrecorded_prompt_is_an_error(connect: Connect) -> None:
    with MockServer(answers={"Name a colour.": "Blue."}) as server:
        async with connect(server) as sdk:
            with pytest.raises(anthropic.BadRequestError) as raised:
                await say(sdk)
    assert raised.value.error_code == "no_recorded_answer"


async def test_rate_limits_and_their_headers(connect: Connect) -> None:
    with MockServer(
        requests_per_minute=50,
        tokens_per_minute=100_000,
        input_tokens_per_minute=20,
        output_tokens_per_minute=10_000,
    ) as server:
        async with connect(server) as sdk:
            raw = await sdk.messages.with_raw_response.create(**HELLO)  # type: ignore[call-overload]
            reply = await raw.parse()
            await say(sdk)
            with pytest.raises(anthropic.RateLimitError) as raised:
                await say(sdk, "something longer")
    told = {
        unit: raw.headers[f"anthropic-ratelimit-{unit}-remaining"]
        for unit in ("requests", "tokens", "input-tokens", "output-tokens")
    }
    read, written = reply.usage.input_tokens, reply.usage.output_tokens
    assert told == {
        "requests": "49",
        "tokens": str(100_000 - read - written),
        "input-tokens": str(20 - read),
        "output-tokens": str(10_000 - written),
    }
    reset = datetime.fromisoformat(raw.headers["anthropic-ratelimit-requests-reset"])
    assert timedelta(seconds=50) < reset - datetime.now(UTC) < timedelta(seconds=62)
    assert raised.value.type == "rate_limit_error"
    assert "rate limit of 20 input tokens per minute" in str(raised.value)
    refused = raised.value.response.headers
    assert 40 < int(refused["retry-after"]) <= 60
    assert refused["anthropic-ratelimit-requests-remaining"] == "48"
    assert refused["anthropic-ratelimit-input-tokens-limit"] == "20"


async def test_refused_parameters(connect: Connect) -> None:
    with MockServer(refuse=["temperature", "thinking"]) as server:
        async with connect(server) as sdk:
            for option, message in (
                (
                    {"extra_body": {"temperature": 1}, "extra_headers": OLD},
                    "`temperature` is deprecated for this model.",
                ),
                ({"thinking": {"type": "adaptive"}}, "thinking: Extra inputs are not permitted"),
            ):
                with pytest.raises(anthropic.BadRequestError) as raised:
                    await say(sdk, **option)
                assert raised.value.api_message == message
            await say(sdk)
