"""What holds an answer to a form is on the wire, in each server's words, or it is refused."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from harness.backends._bodies import constrained
from harness.backends.anthropic import AnthropicBackend
from harness.backends.openai import COMPATIBLE, PRESETS, OpenAIBackend
from harness.backends.openai_completions import OpenAICompletionsBackend
from harness.ports import CONSTRAINTS
from harness.records import Decoding, DecodingConstraint, Message, Origin, Request
from tests.backends.answering import answering

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
EACH = {
    "json_schema": DecodingConstraint(json_schema=SCHEMA),
    "regex": DecodingConstraint(regex="[a-z]{4}"),
    "choices": DecodingConstraint(choices=("yes", "no")),
    "grammar": DecodingConstraint(grammar='root ::= "a"'),
}
REQUEST = Request("m", (Message("user", "Hello?"),), Decoding(), 0, Origin("a", 0, 1))
OPTIONS: dict[str, Any] = {"secret": lambda _: "", "concurrency": 1, "timeout_s": 10}


def held_to(constraint: DecodingConstraint) -> Request:
    return replace(REQUEST, decoding=Decoding(max_tokens=9, constraint=constraint))


def sent_in(received: list[bytes]) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(received[0].partition(b"\r\n\r\n")[2])
    return sent


@pytest.mark.parametrize(
    ("kind", "field"),
    [("json_schema", "json"), ("regex", "regex"), ("choices", "choice"), ("grammar", "grammar")],
)
async def test_vllm_is_told_by_todays_name(kind: str, field: str) -> None:
    constraint = EACH[kind]
    body = json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]})
    with answering(body) as (url, received):
        backend = OpenAIBackend("vllm", url, **OPTIONS)
        assert kind in backend.features
        await backend.generate(held_to(constraint))
        await backend.aclose()
    sent = sent_in(received)
    value = json.loads(json.dumps(constraint.given()[kind]))
    assert sent["structured_outputs"] == {field: value}
    # The names of before are passed over in silence by today's servers.
    assert not any(name.startswith("guided") for name in sent)


async def test_openai_is_told_the_schema() -> None:
    body = json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]})
    with answering(body) as (url, received):
        backend = OpenAIBackend("groq", url, **OPTIONS)
        await backend.generate(held_to(EACH["json_schema"]))
        await backend.aclose()
    assert sent_in(received)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
    }


async def test_anthropic_is_told_the_schema() -> None:
    body = json.dumps(
        {"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn", "model": "m"}
    )
    with answering(body) as (url, received):
        backend = AnthropicBackend(base_url=url, **OPTIONS)
        await backend.generate(held_to(EACH["json_schema"]))
        await backend.aclose()
    told = sent_in(received)["output_config"]
    assert told == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert backend.features & CONSTRAINTS == {"json_schema"}
    older = AnthropicBackend("2023-06-01", base_url=url, **OPTIONS)
    assert not older.features & CONSTRAINTS


@pytest.mark.parametrize("name", PRESETS)
def test_what_a_preset_takes_it_says(name: str) -> None:
    preset = PRESETS[name]
    for kind in CONSTRAINTS & preset.features("some-model"):
        assert constrained(EACH[kind], preset.constraints)


def test_a_server_known_by_its_url_alone_promises_nothing() -> None:
    assert not COMPATIBLE.features("some-model") & CONSTRAINTS


def test_the_legacy_endpoint_has_no_response_format() -> None:
    assert not OpenAICompletionsBackend("openai", **OPTIONS).features & CONSTRAINTS
    vllm = OpenAICompletionsBackend("vllm", **OPTIONS)
    assert vllm.features & CONSTRAINTS == CONSTRAINTS
