"""What of the engine in this process needs no vLLM: its thread, its parameters, its arguments."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends import OwnedServers
from harness.errors import ConfigError, FatalCallError, RequestRejected, TransientError
from harness.plugin_loader import kind
from harness.plugins.vllm.engine import (
    EngineThread,
    InProcessEngine,
    _reasoning_parser,
    sampling,
    template_options,
)
from harness.plugins.vllm.model import VLLMModel, checked, depth, flags
from harness.records import Decoding, DecodingConstraint, Message, Origin, Reply, Request


def request(decoding: Decoding, seed: int | None = None) -> Request:
    return Request("m", (Message("user", "?"),), decoding, 0, Origin("a", 0, 1), seed)


class Echo:
    """An engine that answers with its loop, dies of one word, and ends in its loop alone."""

    def __init__(self, fault: str = "") -> None:
        self.dead = False
        self.ended = False
        self.called_off = threading.Event()
        self._fault = fault

    async def load(self) -> None:
        self.loop = asyncio.get_running_loop()
        if self._fault:
            raise ValueError(self._fault)

    def call_off(self) -> None:
        self.called_off.set()

    async def answer(self, asked: Request, name: str) -> Reply:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        if asked.messages[0].content == "die":
            self.dead = True
            raise TransientError("it died", kind="connection_lost")
        return Reply(name, "stop")

    async def shutdown(self) -> None:
        self.ended = asyncio.get_running_loop() is self.loop


def threaded(engine: Echo) -> EngineThread:
    return EngineThread(cast("InProcessEngine", engine))


async def test_an_engine_answers_from_its_own_loop_and_ends_in_it() -> None:
    engine = Echo()
    thread = threaded(engine)
    await thread.loaded()
    replies = await asyncio.gather(*(thread.answer(request(Decoding()), f"{n}") for n in range(9)))
    assert [reply.text for reply in replies] == [f"{n}" for n in range(9)]
    assert not thread.has_ended()
    await asyncio.to_thread(thread.end)
    assert engine.ended
    assert not engine.called_off.is_set()
    assert thread.has_ended()
    thread.end()  # again: nothing


def test_an_engine_outlives_the_loop_of_one_variant() -> None:
    thread = threaded(Echo())

    async def variant() -> str:
        await thread.loaded()
        return (await thread.answer(request(Decoding()), "x")).text

    assert [asyncio.run(variant()) for _ in range(2)] == ["x", "x"]
    thread.end()


async def test_one_that_cannot_be_loaded_says_why_and_one_that_died_has_ended() -> None:
    broken, engine = Echo("no such model"), Echo()
    thread = threaded(broken)
    with pytest.raises(ValueError, match="no such model"):
        await thread.loaded()
    assert broken.ended
    assert thread.has_ended()
    thread.end()
    thread = threaded(engine)
    await thread.loaded()
    dies = Request("m", (Message("user", "die"),), Decoding(), 0, Origin("a", 0, 1))
    with pytest.raises(TransientError):
        await thread.answer(dies, "x")
    assert thread.has_ended()
    await asyncio.to_thread(thread.end)
    assert engine.ended
    assert not [one for one in threading.enumerate() if one.name == "vllm-engine"]


class Slow(Echo):
    """One that is loaded until it is called off."""

    async def load(self) -> None:
        await super().load()
        self.called_off.wait(60)
        raise ValueError("called off")


async def test_an_end_while_it_is_loaded_calls_that_off() -> None:
    engine = Slow()
    thread = threaded(engine)
    waits = asyncio.create_task(thread.loaded())
    await asyncio.sleep(0)
    waits.cancel()
    await asyncio.to_thread(thread.end)
    assert waits.cancelled()
    assert engine.called_off.is_set()
    assert engine.ended
    with pytest.raises(ValueError, match="called off"):
        await thread.loaded()
    assert thread.has_ended()


async def test_without_vllm_the_remedy_is_told(tmp_path: Path) -> None:
    if importlib.util.find_spec("vllm"):
        pytest.skip("vLLM is installed here")
    backend = kind("backends").build(
        "vllm_engine",
        {},
        model="hub/name",
        servers=OwnedServers(),
        logs=tmp_path,
        cache_dir=tmp_path,
    )
    assert not backend.ready
    with pytest.raises(FatalCallError, match=r"harness-instruct\[vllm\]"):
        await backend.start(lambda _: None)
    await backend.aclose()


class Mortal:
    """In the place of an engine's thread: it dies of one prompt, and what is in flight with it."""

    def __init__(self) -> None:
        self.died = asyncio.Event()
        self.in_flight = 0

    def has_ended(self) -> bool:
        return self.died.is_set()

    async def answer(self, asked: Request, name: str) -> Reply:
        self.in_flight += 1
        await asyncio.sleep(0)  # the others begin too
        if asked.messages[0].content == "die":
            self.died.set()
        if self.died.is_set():
            raise TransientError("it died", kind="connection_lost")
        self.in_flight -= 1
        return Reply(name, "stop")


async def test_a_prompt_that_kills_the_engine_is_given_up_and_the_others_are_answered(
    tmp_path: Path,
) -> None:
    backend = kind("backends").build(
        "vllm_engine",
        {},
        model="hub/name",
        servers=OwnedServers(),
        logs=tmp_path,
        cache_dir=tmp_path,
    )
    engines: list[Mortal] = []

    async def patient(prompt: str) -> str:
        while True:
            if not backend.ready:
                engines.append(Mortal())
                backend._thread = engines[-1]
            asked = Request("m", (Message("user", prompt),), Decoding(), 0, Origin(prompt, 0, 1))
            try:
                return str((await backend.generate(asked)).text)
            except TransientError:
                continue

    prompts = ["a", "b", "die", "c", "d"]
    ends = await asyncio.gather(*map(patient, prompts), return_exceptions=True)
    assert [isinstance(end, RequestRejected) for end in ends] == [p == "die" for p in prompts]
    dead = [engine for engine in engines if engine.has_ended()]
    assert len(dead) == 3
    assert dead[-1].in_flight == 1, "it was asked alone"
    await backend.aclose()


def test_a_request_as_sampling_parameters() -> None:
    of_prompt = {"chat_template_kwargs": {"enable_thinking": False}, "add_special_tokens": False}
    decoding = Decoding(
        0.5, 20, 0.9, ("x",), {"top_k": 5, **of_prompt},
        DecodingConstraint(choices=("a", "b")), 3, True,
    )  # fmt: skip
    asked = request(decoding, 7)
    assert sampling(asked, {"top_k": 50, "repetition_penalty": 1.1, "max_tokens": 9}, 100) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 20,
        "stop": ["x"],
        "seed": 7,
        "logprobs": 3,
        "prompt_logprobs": 0,
        "top_k": 5,
        "repetition_penalty": 1.1,
        "structured_outputs": {"choice": ("a", "b")},
    }
    assert template_options(asked) == {"enable_thinking": False}


def test_what_is_left_out_is_the_models_own_and_an_answer_may_fill_the_context() -> None:
    assert sampling(request(Decoding()), {"temperature": 0.6}, 100) == {
        "temperature": 0.6,
        "max_tokens": 100,
    }
    assert sampling(request(Decoding()), {"max_tokens": 9}, 100) == {"max_tokens": 9}


@pytest.mark.parametrize(("room", "wanted"), [(0, None), (-5, 3), (10, 11)])
def test_an_answer_that_cannot_fit_is_refused(room: int, wanted: int | None) -> None:
    with pytest.raises(RequestRejected, match="max_model_len"):
        sampling(request(Decoding(max_tokens=wanted)), {}, room)


def test_template_options_are_a_mapping() -> None:
    with pytest.raises(RequestRejected, match="chat_template_kwargs"):
        template_options(request(Decoding(extra={"chat_template_kwargs": 3})))


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text("ab ", min_size=1))


@given(st.dictionaries(NAMES, VALUES))
def test_flags_have_every_argument_once_and_no_null(engine: dict[str, Any]) -> None:
    words = flags(engine)
    for name, value in engine.items():
        flag = name.replace("_", "-")
        assert words.count(f"--{flag}") <= 1 or value is None
        if isinstance(value, bool):
            assert (f"--{flag}" if value else f"--no-{flag}") in words
        elif value is not None:
            assert words[words.index(f"--{flag}") + 1] == str(value)


def test_arguments() -> None:
    assert flags({"lora_modules": ["a=b", "c=d"], "config": {"a": 1}}) == [
        *("--lora-modules", "a=b", "c=d"),
        *("--config", '{"a": 1}'),
    ]
    assert flags({"disable_log_stats": False}) == [], "it has no --no- form"
    assert checked({"--max-model-len": 5, "dtype": None}) == {"max_model_len": 5}
    model = VLLMModel("hub/name", engine={"dtype": "half", "tensor_parallel_size": 2})
    assert model.fingerprint() == {"weights": "hub/name", "engine": '{"dtype":"half"}'}
    assert (depth({}), depth({"max_num_seqs": 64, "data_parallel_size": 2})) == (320, 160)
    with pytest.raises(ConfigError, match="Remove it"):
        checked({"api-key": "x"})


def test_vllm_without_a_reasoning_parser_returns_the_text() -> None:
    text = "<think>\n\n</think>\n\nYes"
    config = SimpleNamespace(structured_outputs_config=SimpleNamespace(reasoning_parser=""))
    split = _reasoning_parser(SimpleNamespace(vllm_config=config), None)
    assert split(text) == (text, None)
