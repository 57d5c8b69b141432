"""The backend litellm, against the mock through LiteLLM's route to OpenAI-compatible servers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from msgspec.structs import replace

from harness.errors import ExtraMissing, FatalCallError, PromptRefused, RequestRejected
from harness.plugins.mock.server import MockServer
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.backends.answering import answering, transient

litellm = find_spec("litellm")

installed = pytest.mark.skipif(
    litellm is None, reason="litellm (250 MB with its dependencies) is not installed"
)
pytestmark = pytest.mark.filterwarnings("default")  # LiteLLM's own

REQUEST = Request(
    "openai/m",
    (Message("system", "Be brief."), Message("user", "A colour?")),
    Decoding(0.5, 64, stop=("END",)),
    0,
    Origin("a", 0, 1),
)


async def ask(url: str, request: Request = REQUEST) -> Reply:
    from harness.plugins.litellm.backend import LiteLLMBackend

    backend = LiteLLMBackend(url, "MY_KEY", secret=lambda _: "sk-a-long-key", timeout_s=5)
    try:
        return await backend.generate(request)
    finally:
        await backend.aclose()


@pytest.mark.skipif(litellm is not None, reason="litellm is installed")
async def test_without_the_extra_it_is_named() -> None:
    with pytest.raises(ExtraMissing, match=r"harness-instruct\[litellm\]"):
        await ask("http://127.0.0.1:9")


@installed
async def test_a_reply_has_answer_reasoning_and_usage() -> None:
    with MockServer(answers={"A colour?": "Blue."}, reasoning="field") as server:
        reply = await ask(f"{server.url}/v1")
        stats = server.stats()
    assert (reply.text, reply.finish_reason, reply.model) == ("Blue.", "stop", "m")
    assert reply.reasoning
    assert reply.usage
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (
        stats.prompt_tokens,
        stats.completion_tokens,
    )


@installed
async def test_a_failure_is_not_retried_and_treated_as_its_status() -> None:
    for fault, kind in {"429": "rate_limited", "500": "server_failed", "503": "overloaded"}.items():
        with MockServer(faults={fault: 1.0}) as server, transient(kind):  # type: ignore[arg-type]
            await ask(f"{server.url}/v1")
        assert server.stats().requests == 1
    with MockServer(faults={"400": 1.0}) as server, pytest.raises(RequestRejected):
        await ask(f"{server.url}/v1")
    with MockServer(api_key="right") as server, pytest.raises(FatalCallError, match="MY_KEY") as e:
        await ask(f"{server.url}/v1")
    assert "sk-a-long-key" not in str(e.value)


@installed
async def test_a_lost_connection_is_transient_and_a_filter_refuses_the_prompt() -> None:
    with transient("unreachable"):
        await ask("http://127.0.0.1:9/v1")
    body = '{"error": {"message": "Filtered.", "code": "content_policy_violation"}}'
    with answering(body, 400) as (url, _), pytest.raises(PromptRefused):
        await ask(url)


@installed
async def test_the_key_is_masked_and_nothing_is_cached() -> None:
    with MockServer(faults={"key_in_answer": 1.0}) as server:
        for _ in range(2):
            extra: dict[str, Any] = {"presence_penalty": 0.1}
            given = replace(REQUEST, decoding=Decoding(extra=extra))
            reply = await ask(f"{server.url}/v1", given)
            assert "[key]" in reply.text
        assert server.stats().requests == 2
