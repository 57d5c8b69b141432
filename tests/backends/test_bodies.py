"""Constraints and log-probabilities on the wire, in each server's words."""

import json
from math import log
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from harness.backends._bodies import MIN_LOGPROB, constraint_fields, read_logprobs
from harness.backends.openai import COMPATIBLE_PRESET, PRESETS, OpenAIBackend
from harness.backends.simulated import SimulatedBackend
from harness.calls.keys import call_key
from harness.plugins.mock.answers import Answer
from harness.plugins.mock.server import MockServer
from harness.ports import CONSTRAINTS
from harness.records import (
    Decoding,
    DecodingConstraint,
    Logprobs,
    Message,
    Origin,
    Reply,
    Request,
    TokenLogprob,
)
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
    value = json.loads(json.dumps(constraint.specified_fields()[kind]))
    assert sent["structured_outputs"] == {field: value}
    # The names of before are passed over in silence by today's servers.
    assert not any(name.startswith("guided") for name in sent)


SENT_SCHEMAS = {
    "groq": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
    },
    "llama_cpp_python": {"type": "json_object", "schema": SCHEMA},
}


@pytest.mark.parametrize("preset", SENT_SCHEMAS)
async def test_a_server_is_sent_the_schema_in_its_own_form(preset: str) -> None:
    body = json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]})
    with answering(body) as (url, received):
        backend = OpenAIBackend(preset, url, **OPTIONS)
        await backend.generate(held_to(EACH["json_schema"]))
        await backend.aclose()
    assert sent_in(received)["response_format"] == SENT_SCHEMAS[preset]


@pytest.mark.parametrize("name", PRESETS)
def test_what_a_preset_takes_it_says(name: str) -> None:
    preset = PRESETS[name]
    for kind in CONSTRAINTS & preset.features("some-model"):
        assert constraint_fields(EACH[kind], preset.constraints)


def test_a_server_known_by_its_url_alone_promises_nothing() -> None:
    assert not COMPATIBLE_PRESET.features("some-model") & CONSTRAINTS


PLAIN = Request("m", (Message("user", "Is it?"),), Decoding(max_tokens=5), 0, Origin("a", 0, 1))
ASKING = replace(PLAIN, decoding=Decoding(max_tokens=5, logprobs=3))
UNSURE = Answer("No", [{"Yes": log(0.7), "No": log(0.2), "Maybe": log(0.1)}, {".": 0.0}])
TOLD: Logprobs = (
    (
        TokenLogprob("Yes", log(0.7)),
        TokenLogprob("No", log(0.2)),
        TokenLogprob("Maybe", log(0.1)),
    ),
    (TokenLogprob(".", 0.0),),
)


async def ask(kind: Any, url: str, request: Request) -> Reply:
    backend = kind(None, url, **OPTIONS)
    try:
        reply: Reply = await backend.generate(request)
        return reply
    finally:
        await backend.aclose()


async def test_they_come_with_the_answer_where_they_are_asked_for() -> None:
    await check_logprobs(OpenAIBackend)


async def check_logprobs(kind: Any) -> None:
    """Check that a backend of this class returns log-probabilities only if they are requested."""
    with MockServer(answers={"Is it?": UNSURE}) as server:
        reply = await ask(kind, server.base_url, ASKING)
        assert (reply.text, reply.logprobs) == ("No", TOLD)
        assert (await ask(kind, server.base_url, PLAIN)).logprobs is None


async def test_the_request_says_so_in_each_forms_words() -> None:
    chat = json.dumps({"choices": [{"message": {"content": "No"}}]})
    with answering(chat) as (url, received):
        assert (await ask(OpenAIBackend, url, ASKING)).logprobs is None
        await ask(OpenAIBackend, url, PLAIN)
    asked, plain = (json.loads(one.partition(b"\r\n\r\n")[2]) for one in received)
    assert (asked["logprobs"], asked["top_logprobs"]) == (True, 3)
    assert "logprobs" not in plain


async def test_nobody_keeps_what_nobody_asked_for() -> None:
    told = {"content": [{"token": "No", "logprob": -0.1, "top_logprobs": []}]}
    body = json.dumps({"choices": [{"message": {"content": "No"}, "logprobs": told}]})
    with answering(body) as (url, _):
        assert (await ask(OpenAIBackend, url, PLAIN)).logprobs is None


@pytest.mark.parametrize(
    "told",
    [
        "odd",
        5,
        True,
        [],
        {"content": "odd"},
        {"content": None},
        {"tokens": ["No"], "token_logprobs": [-0.1], "top_logprobs": None},
    ],
)
async def test_what_is_odd_never_loses_the_answer(told: Any) -> None:
    body = json.dumps({"choices": [{"message": {"content": "No"}, "logprobs": told}]})
    with answering(body) as (url, _):
        reply = await ask(OpenAIBackend, url, ASKING)
    assert (reply.text, reply.logprobs) == ("No", None)


def test_odd_positions_and_tokens_are_left_out() -> None:
    tokens: list[Any] = [
        {"token": "b", "logprob": -2},
        {"token": "a", "logprob": -1.5, "bytes": [97]},
        {"token": "c"},
        {"token": "d", "logprob": "-1"},
        {"token": "e", "logprob": True},
        {"token": 5, "logprob": -1.0},
        {"token": "f", "logprob": float("nan")},
        {"token": "g", "logprob": float("-inf")},
        {"token": "h", "logprob": 1e-9},
        {"token": "i", "logprob": -(10**400)},
        "j",
    ]
    told = {"content": [{"token": "a", "top_logprobs": tokens}, "odd", {"token": "a"}, None]}
    assert read_logprobs(told) == (
        (
            TokenLogprob("h", 0.0),
            TokenLogprob("a", -1.5),
            TokenLogprob("b", -2.0),
            TokenLogprob("g", MIN_LOGPROB),
            TokenLogprob("i", MIN_LOGPROB),
        ),
        (),
        (),
        (),
    )


def test_twenty_positions_are_kept_and_the_likeliest_come_first() -> None:
    position = {f"t{i}": -30.0 + i for i in range(30)}
    found = read_logprobs({"top_logprobs": [position] * 50})
    assert found is not None
    assert len(found) == 20
    # The asked-for twenty, and the one that was written.
    assert [one.token for one in found[0]] == [f"t{i}" for i in range(29, 8, -1)]


def test_half_an_emoji_in_a_token_does_not_stop_the_cache() -> None:
    from harness.backends import _bodies
    from harness.backends.openai import _Completion

    body = (
        b'{"choices": [{"message": {"content": "ok"}, "logprobs": {"content": '
        b'[{"token": "x", "top_logprobs": [{"token": "\\ud83d", "logprob": -0.5}]}]}}]}'
    )
    choice = _bodies.decode_body(body, _Completion).choices[0]
    found = read_logprobs(choice.logprobs)
    assert msgspec.msgpack.encode(Reply("ok", "stop", logprobs=found))
    assert found == ((TokenLogprob("\ufffd", -0.5),),)


@pytest.mark.parametrize(
    ("preset", "model", "tells"),
    [
        ("openai", "gpt-4o", True),
        ("openai", "o3", False),
        ("openai", "gpt-5-mini", False),
        ("azure", "mine", True),
        ("deepseek", "deepseek-chat", True),
        ("ollama", "llama3.2", True),
        ("llama_cpp", "any", True),
        ("vllm", "any", True),
        ("groq", "llama-3.3-70b-versatile", False),
        ("together", "any", False),
        ("openrouter", "any", False),
        ("mistral", "any", False),
    ],
)
def test_who_tells_them(preset: str, model: str, tells: bool) -> None:
    assert ("logprobs" in PRESETS[preset].features(model)) is tells


def test_a_server_known_by_its_url_is_asked_and_made_up_answers_have_none() -> None:
    assert "logprobs" in COMPATIBLE_PRESET.features("any")
    assert "logprobs" not in SimulatedBackend.features


def test_they_are_part_of_the_call_and_change_no_other_key() -> None:
    assert Decoding().specified_fields() == {}
    assert Decoding(logprobs=5).specified_fields() == {"logprobs": 5}
    # As it was before there were any.
    assert call_key("openai", "http://x/v1", PLAIN) == KEY_BEFORE
    assert call_key("openai", "http://x/v1", ASKING) != KEY_BEFORE


KEY_BEFORE = "e5e150d5252a368c2a30c23dd180ab9a"
