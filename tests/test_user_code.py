from __future__ import annotations

import asyncio
import inspect
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.calls.backend_layers import BackendCalls
from harness.errors import CallError, ConfigError
from harness.records import Decoding, Message, Origin, Request
from harness.user_code import backend_factory


def request(*texts: str) -> Request:
    messages = tuple(Message("user", text) for text in texts)
    return Request("m", messages, Decoding(max_tokens=7), 0, Origin("a", 0, 1))


async def test_blocking_calls_do_not_wait_for_each_other() -> None:
    def answer(prompt: str) -> str:
        time.sleep(0.3)
        return prompt

    backend = backend_factory(answer, "")()
    async with asyncio.timeout(3):
        replies = await asyncio.gather(*(backend.generate(request("a", "b")) for _ in range(40)))
    assert {reply.text for reply in replies} == {"a\n\nb"}
    assert "conversation" not in backend.features


def test_replies_are_cached_for_the_code_and_the_options() -> None:
    def answer(prompt: str, style: str = "plain") -> str:
        return prompt

    styles = ("plain", "bold", Path("bold"), Path("a"))
    keys = [
        backend_factory(answer, code)(style=style).key_part(request("a"))
        for code in ("one", "two")
        for style in styles
    ]
    assert keys[1] == keys[2]
    assert len({*keys}) == 2 * 3
    assert backend_factory(answer, "one")().cacheable
    assert not backend_factory(answer, "")().cacheable


async def test_a_function_that_exits_or_returns_no_text_fails_its_call() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def function(prompt: str) -> Any:
        return {
            "exit": sys.exit,
            "interrupt": interrupted,
            "stop": lambda: next(iter([])),
            "none": lambda: None,
        }[prompt]()

    ask = BackendCalls(backend_factory(function, "", "app.py")())
    for prompt, problem in {
        "exit": r"^app.py's function raised SystemExit \(",
        "interrupt": r"^app.py's function raised KeyboardInterrupt \(",
        "stop": "^app.py's function raised RuntimeError: .*StopIteration",
        "none": "^app.py's function returned None, not a text or a Reply.$",
    }.items():
        with pytest.raises(CallError, match=problem):
            await ask(request(prompt))


async def test_callable_objects_are_functions() -> None:
    class App:
        async def __call__(self, prompt: str) -> str:
            return prompt

    def joined(prompt: str, end: str) -> str:
        return prompt + end

    assert (await backend_factory(App(), "")().generate(request("a"))).text == "a"
    assert (
        await backend_factory(partial(joined, end="b"), "")().generate(request("a"))
    ).text == "ab"


def test_a_function_without_a_prompt_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"app.py's <lambda> has none\. Define"):
        backend_factory(lambda: "", "", "app.py")


async def test_a_function_gets_the_token_limit_only_if_it_has_a_parameter_for_it() -> None:
    def limited(prompt: str, max_tokens: int) -> str:
        return f"{prompt}{max_tokens}"

    build = backend_factory(limited, "")
    assert (await build().generate(request("a"))).text == "a7"
    assert build().features == {"application", "max_tokens", "max_tokens_required"}
    assert not inspect.signature(build).parameters, "it is no option"
    unlimited = backend_factory(lambda prompt: prompt, "")
    assert (await unlimited().generate(request("a"))).text == "a"
    assert unlimited().features == {"application", "max_tokens"}
    assert unlimited.features == frozenset(), "harness eval sets no limit"
