"""Reasoning on every wire: where its text is, and that its tokens are counted."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from harness.plugins.mock.answers import inline
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import REASONING, MockError, ReplyChoice

PATHS = {"chat": "/v1/chat/completions", "text": "/v1/completions", "messages": "/v1/messages"}
TURNS = [{"role": "user", "content": "A colour?"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": TURNS},
    "text": {"model": "m", "prompt": "A colour?", "max_tokens": 100},
    "messages": {"model": "m", "messages": TURNS, "max_tokens": 100},
}
VERSION = {"anthropic-version": "2026-10-21"}
ANSWERS = {"A colour?": "Blue."}


async def ask(server: MockServer, wire: str, **options: Any) -> Any:
    async with httpx2.AsyncClient(headers=VERSION, verify=False) as client:
        reply = await client.post(server.url + PATHS[wire], json=BODIES[wire] | options)
    return reply.raise_for_status().json()


def message(reply: Any) -> Any:
    return reply["choices"][0]["message"]


def chat_tokens(reply: Any) -> int:
    count: int = reply["usage"]["completion_tokens_details"]["reasoning_tokens"]
    return count


async def test_none_by_default() -> None:
    with MockServer(answers=ANSWERS) as server:
        chat, text, messages = [await ask(server, wire) for wire in PATHS]
    assert message(chat) == {"content": "Blue.", "refusal": None, "role": "assistant"}
    assert (chat_tokens(chat), chat_tokens(text)) == (0, 0)
    assert text["choices"][0]["text"] == "Blue."
    assert [block["type"] for block in messages["content"]] == ["text"]
    assert "output_tokens_details" not in messages["usage"]


async def test_as_tags_in_the_text() -> None:
    with MockServer(answers=ANSWERS, reasoning="think") as server:
        chat, text, messages = [await ask(server, wire) for wire in PATHS]
    for said in (message(chat)["content"], text["choices"][0]["text"]):
        assert said.startswith("<think>\nLet me think")
        assert said.endswith("\n</think>\n\nBlue.")
    assert "reasoning" not in message(chat)
    assert messages["content"][-1]["text"] == "Blue."


async def test_as_fields_of_a_chat_message() -> None:
    with MockServer(answers=ANSWERS, reasoning="field") as server:
        chat, text, _ = [await ask(server, wire) for wire in PATHS]
    assert message(chat)["content"] == "Blue."
    assert message(chat)["reasoning"].startswith("Let me think")
    assert message(chat)["reasoning_content"] == message(chat)["reasoning"]
    assert text["choices"][0]["text"] == "Blue."


async def test_as_blocks() -> None:
    with MockServer(answers=ANSWERS, reasoning="blocks") as server:
        chat, _, messages = [await ask(server, wire) for wire in PATHS]
        hidden = await ask(server, "messages", thinking={"type": "adaptive", "display": "omitted"})
    assert message(chat) == {"content": "Blue.", "refusal": None, "role": "assistant"}
    thought, said = messages["content"]
    assert thought["thinking"].startswith("Let me think")
    assert thought["signature"]
    assert said["text"] == "Blue."
    assert hidden["content"][0] == thought | {"thinking": ""}
    assert hidden["usage"]["output_tokens_details"]["thinking_tokens"] > 0


@pytest.mark.parametrize("form", REASONING)
async def test_tokens_are_counted_whoever_sees_the_text(form: str) -> None:
    with MockServer(answers=ANSWERS, reasoning=form) as server:
        chat, text, messages = [await ask(server, wire) for wire in PATHS]
        counted = server.stats().completion_tokens
    for reply in (chat, text):
        assert reply["usage"]["completion_tokens"] == chat_tokens(reply) + 2
        assert chat_tokens(reply) > 10
    details = messages["usage"]["output_tokens_details"]
    assert messages["usage"]["output_tokens"] == details["thinking_tokens"] + 2
    assert counted == sum(
        [
            chat["usage"]["completion_tokens"],
            text["usage"]["completion_tokens"],
            messages["usage"]["output_tokens"],
        ]
    )


async def test_a_request_may_turn_it_off() -> None:
    with MockServer(answers=ANSWERS, reasoning="blocks") as server:
        chat = await ask(server, "chat", reasoning_effort="none")
        messages = await ask(server, "messages", thinking={"type": "disabled"})
    assert chat_tokens(chat) == 0
    assert [block["type"] for block in messages["content"]] == ["text"]


async def test_it_may_leave_no_tokens_for_the_answer() -> None:
    with MockServer(answers=ANSWERS, reasoning="think") as server:
        chat = await ask(server, "chat", max_completion_tokens=10)
        messages = await ask(server, "messages", max_tokens=10)
        assert server.stats().answered == 0
    assert chat["choices"][0]["finish_reason"] == "length"
    assert message(chat)["content"].startswith("<think>\n")
    assert "</think>" not in message(chat)["content"]
    assert (chat["usage"]["completion_tokens"], chat_tokens(chat)) == (10, 10)
    assert messages["stop_reason"] == "max_tokens"
    assert [block["type"] for block in messages["content"]] == ["thinking"]


@pytest.mark.parametrize("form", [None, "field", "blocks"])
async def test_fault_that_eats_all_tokens(form: str | None) -> None:
    with MockServer(faults={"reasoning_only": 1}, reasoning=form) as server:
        chat = await ask(server, "chat", max_tokens=50_000)
        text = await ask(server, "text")
        messages = await ask(server, "messages", max_tokens=50_000)
        stats = server.stats()
    for reply, said in ((chat, message(chat)["content"]), (text, text["choices"][0]["text"])):
        assert said == ""
        assert reply["choices"][0]["finish_reason"] == "length"
    assert (chat["usage"]["completion_tokens"], chat_tokens(chat)) == (50_000, 50_000)
    assert ("reasoning" in message(chat)) == (form == "field")
    assert messages["stop_reason"] == "max_tokens"
    assert messages["usage"]["output_tokens"] == 50_000
    assert [block["type"] for block in messages["content"]] == (["thinking"] if form else [])
    assert (stats.answered, stats.by_fault) == (0, {"reasoning_only": 3})


def test_inline() -> None:
    assert inline(ReplyChoice("Blue.")) == "Blue."
    assert inline(ReplyChoice("Blue.", reasoning="Hm.")) == "<think>\nHm.\n</think>\n\nBlue."
    assert inline(ReplyChoice("", "length", reasoning="Hm.")) == "<think>\nHm."


def test_unknown_form_is_refused() -> None:
    with pytest.raises(MockError, match="Forms: think, field, blocks"):
        MockServer(reasoning="thoughts")
