"""vLLM servers, given and owned, with a stand-in that really is started, dies and is ended."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shlex
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.backends import OwnedServers
from harness.config.identity import conflicting_keys
from harness.config.run_file import RunFile
from harness.errors import ConfigError, DataMissing, FatalCallError, RequestRejected, TransientError
from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer
from harness.plugins.vllm.processes import free_port
from harness.plugins.vllm.server import COMMAND, VLLMServerBackend, healthy, serves
from harness.records import Decoding, DecodingConstraint, Message, Origin, Request, TokenLogprob
from tests.backends.answering import answering, transient
from tests.backends.stand_ins import alive, until
from tests.config.test_identity import JUDGE, judges, run
from tests.plugins.vllm.journal import COMMAND as PROGRAM
from tests.plugins.vllm.journal import Journal

REQUEST = Request("tiny", (Message("user", "Hello?"),), Decoding(), 0, Origin("a", 0, 1))


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in takes the place of vLLM's server."""
    monkeypatch.setenv(COMMAND, shlex.join(PROGRAM))


def served_model(**options: Any) -> MockServer:
    """A server that is there, of the model that the tests ask for."""
    return MockServer(models=["tiny"], **options)


def asked(number: int) -> Request:
    return replace(REQUEST, messages=(Message("user", f"Question {number}"),))


@contextlib.asynccontextmanager
async def served(
    folder: Path, servers: OwnedServers | None = None, **options: Any
) -> AsyncIterator[VLLMServerBackend]:
    """The backend with the stand-in in vLLM's place; it has `folder` for its journal and logs."""
    engine = {"journal": str(folder / "journal.jsonl"), **options.pop("engine", {})}
    if "base_url" in options:
        engine = {}
    with contextlib.ExitStack() as stack:
        kept = servers or stack.enter_context(OwnedServers())
        backend = kind("backends").build(
            "vllm_server",
            {**({"engine": engine} if engine else {}), **options},
            secret=lambda _: "",
            concurrency=16,
            timeout_s=30.0,
            model="tiny",
            servers=kept,
            logs=folder / "logs",
            cache_dir=folder,
        )
        try:
            yield backend
        finally:
            await backend.aclose()


async def started(backend: VLLMServerBackend) -> None:
    assert not backend.ready, "it is started, or looked at, first"
    await backend.start(lambda _: None)
    assert backend.ready


async def patient(backend: VLLMServerBackend, request: Request) -> str:
    """An answer, asked for again where the connection breaks, as the call stack does."""
    while True:
        if not backend.ready:
            await backend.start(lambda _: None)
        with contextlib.suppress(TransientError):
            return (await backend.generate(request)).text


async def test_a_server_is_started_with_the_users_arguments_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sk-elsewhere")  # it would keep the harness out
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")  # not for this machine
    weights = tmp_path / "weights"
    weights.mkdir()
    journal = Journal(tmp_path)
    engine = {
        "tensor_parallel_size": 2,
        "dtype": "float32",
        "quantization": None,
        "max-model-len": 512,
        "gpu_memory_utilization": 0.5,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "override_generation_config": {"top_k": 5},
        "leaves_a_child": True,
    }
    async with served(tmp_path, path=str(weights), gpus=["3,1"], engine=engine) as backend:
        await started(backend)
        assert (await backend.generate(REQUEST)).text
    [line] = journal.lines("starts")
    words = line["starts"]

    def after(flag: str) -> str:
        return str(words[words.index(flag) + 1])

    assert after("--model") == str(weights)
    assert after("--served-model-name") == "tiny"
    assert after("--host") == "127.0.0.1", "nobody else's machine is to use it"
    assert after("--tensor-parallel-size") == "2"
    assert after("--max-model-len") == "512"
    assert after("--gpu-memory-utilization") == "0.5"
    assert after("--override-generation-config") == '{"top_k": 5}'
    assert "--enable-prompt-tokens-details" in words, "for the prefix cache's part in the report"
    assert "--enforce-eager" in words
    assert "--no-enable-prefix-caching" in words
    assert "--quantization" not in words
    assert line["gpus"] == "3,1"
    assert journal.lines("ends"), "it was asked to end, and not killed"
    until(lambda: not any(map(alive, journal.pids())), "its processes are gone")
    assert len(journal.pids()) == 2


async def test_an_adapter_is_served_under_the_models_name(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    async with served(tmp_path, path="base/model", lora=str(adapter)) as backend:
        await started(backend)
        assert (await backend.generate(REQUEST)).model == "tiny"
    words = Journal(tmp_path).lines("starts")[0]["starts"]
    assert f"--lora-modules tiny={adapter}" in " ".join(words)
    assert "--model base/model --host" in " ".join(words)
    assert "--served-model-name tiny-base --enable-lora" in " ".join(words)


async def test_a_server_that_does_not_start_shows_its_last_words(tmp_path: Path) -> None:
    async with served(tmp_path, engine={"no_start": True}) as backend:
        with pytest.raises(FatalCallError) as error:
            await backend.start(lambda _: None)
    assert "out of memory, says the stand-in" in error.value.message
    assert "vllm-0.log" in error.value.remedy
    assert len(Journal(tmp_path).lines("starts")) == 1, "it would say so again"


async def test_a_server_whose_port_was_taken_meanwhile_gets_another(tmp_path: Path) -> None:
    async with served(tmp_path, engine={"port_taken": True}) as backend:
        await backend.start(lambda _: None)
        assert backend.ready
    assert len(Journal(tmp_path).lines("starts")) == 2


async def test_a_server_that_stays_silent_is_given_up_and_ended(tmp_path: Path) -> None:
    async with served(tmp_path, start_s=0.5, engine={"stays_silent": True}) as backend:
        with pytest.raises(FatalCallError, match="did not start"):
            await backend.start(lambda _: None)
        until(lambda: not any(map(alive, Journal(tmp_path).pids())), "its processes are gone")


async def test_without_vllm_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("vllm"):
        pytest.skip("vLLM is installed here")
    monkeypatch.delenv(COMMAND)
    async with served(tmp_path) as backend:
        with pytest.raises(FatalCallError, match="HARNESS_VLLM_COMMAND"):
            await backend.start(lambda _: None)


async def test_one_that_dies_is_started_again_and_asked_only_for_what_was_in_flight(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path)
    engine = {"dies_at": 30, "lives": 2, "latency": 0.02, "leaves_a_child": True}
    async with served(tmp_path, engine=engine) as backend:
        numbers = iter(range(100))
        answers: list[str] = []

        async def work() -> None:
            for number in numbers:
                answers.append(await patient(backend, asked(number)))

        await asyncio.gather(*(work() for _ in range(8)))
    assert len(answers) == 100
    deaths = journal.lines("dies")
    assert len(deaths) == 2
    digests = [line["asked"] for line in journal.lines("asked")]
    assert len(set(digests)) == 100
    assert 1 <= len(digests) - 100 <= sum(line["in_flight"] for line in deaths)
    assert len(journal.lines("starts")) == 3
    until(lambda: not any(map(alive, journal.pids())), "its processes are gone")


async def test_one_that_dies_at_every_request_is_given_up(tmp_path: Path) -> None:
    engine = {"dies_at": 1, "lives": 99}
    async with served(tmp_path, restarts=2, engine=engine) as backend:
        with pytest.raises(RequestRejected, match="died 3 times on this prompt"):
            await patient(backend, asked(1))
        with pytest.raises(FatalCallError, match="died repeatedly"):
            await patient(backend, asked(2))
    assert len(Journal(tmp_path).lines("starts")) == 3, "the first start and two more"


async def test_a_prompt_that_kills_it_is_given_up_and_the_others_are_answered(
    tmp_path: Path,
) -> None:
    engine = {"dies_of": "Question 7", "latency": 0.02}
    async with served(tmp_path, engine=engine) as backend:
        ends = await asyncio.gather(
            *(patient(backend, asked(number)) for number in range(10)), return_exceptions=True
        )
    assert [n for n, end in enumerate(ends) if isinstance(end, BaseException)] == [7]
    assert isinstance(ends[7], RequestRejected)
    deaths = Journal(tmp_path).lines("dies")
    assert len(deaths) == 3
    assert deaths[-1]["in_flight"] == 1, "it was asked alone"


async def test_one_that_wants_a_key_all_the_same_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMMAND, shlex.join(["env", "VLLM_API_KEY=sk-1", *PROGRAM]))
    async with served(tmp_path) as backend:
        with pytest.raises(FatalCallError, match="HARNESS_VLLM_COMMAND"):
            await backend.start(lambda _: None)
    until(lambda: not any(map(alive, Journal(tmp_path).pids())), "its processes are gone")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"models": ["other"]}, FatalCallError, "serves 'other', but no model 'tiny'"),
        ({"api_key": "sk-1"}, FatalCallError, "model.api_key_env"),
    ],
)
async def test_a_given_server_that_will_not_answer_is_told_at_the_start(
    options: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with MockServer(**options) as wrong:
        async with served(tmp_path, base_url=wrong.base_url) as backend:
            with pytest.raises(error, match=said):
                await backend.start(lambda _: None)
        assert wrong.stats().requests == 0


async def test_one_that_cannot_come_back_ends_the_run_with_its_words(tmp_path: Path) -> None:
    engine = {"dies_at": 2, "lives": 99, "never_again": True}
    async with served(tmp_path, restarts=2, engine=engine) as backend:
        await patient(backend, asked(1))
        with pytest.raises(FatalCallError, match="out of memory"):
            await patient(backend, asked(2))
    assert len(Journal(tmp_path).lines("starts")) == 2, "a restart that fails is not repeated"


async def test_two_backends_that_want_the_same_server_share_it(tmp_path: Path) -> None:
    with OwnedServers() as servers:
        async with served(tmp_path, servers) as one, served(tmp_path, servers) as other:
            for backend in (one, other):
                await started(backend)
                await backend.generate(REQUEST)
        async with served(tmp_path, servers, engine={"dtype": "half"}) as another:
            await started(another)
    dtypes = [line["starts"].count("--dtype") for line in Journal(tmp_path).lines("starts")]
    assert dtypes == [0, 1]


async def test_a_call_that_a_well_server_fails_at_is_its_own_failure(tmp_path: Path) -> None:
    async with served(tmp_path, engine={"fault": "500"}) as backend:
        await started(backend)
        for _ in range(2):
            with transient("server_failed"):
                await backend.generate(REQUEST)
            assert backend.ready
    assert len(Journal(tmp_path).lines("starts")) == 1


async def test_all_given_servers_away_is_the_networks_failure(tmp_path: Path) -> None:
    async with served(tmp_path, base_url=f"http://127.0.0.1:{free_port()}/v1") as backend:
        await started(backend)
        for _ in range(2):
            assert backend.ready, "an outage is the circuit's, which bounds it"
            with transient("unreachable"):
                await backend.generate(REQUEST)


async def test_the_request_is_vllms_own(tmp_path: Path) -> None:
    decoding = Decoding(
        0.5, 7, stop=("x",), constraint=DecodingConstraint(regex="[a-z]{3}"), logprobs=2,
        prompt_logprobs=True,
    )  # fmt: skip
    body = (
        '{"choices": [{"message": {"content": "abc"}, "finish_reason": "stop"}], "model": "tiny",'
        ' "prompt_logprobs": [null, {"7": {"logprob": -1.5, "rank": 1, "decoded_token": "H"}}],'
        ' "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3,'
        ' "prompt_tokens_details": {"cached_tokens": 1}}}'
    )
    with answering(body) as (url, received):
        async with served(tmp_path, base_url=url) as backend:
            await started(backend)
            reply = await backend.generate(replace(REQUEST, decoding=decoding, seed=2**53 - 1))
    sent = json.loads(received[-1].partition(b"\r\n\r\n")[2])
    assert sent["structured_outputs"] == {"regex": "[a-z]{3}"}
    assert (sent["logprobs"], sent["top_logprobs"], sent["prompt_logprobs"]) == (True, 2, 0)
    assert (sent["seed"], sent["stop"], sent["max_tokens"]) == (2**53 - 1, ["x"], 7)
    assert reply.usage is not None
    assert reply.usage.cached_input_tokens == 1
    assert reply.prompt_logprobs == (None, TokenLogprob("H", -1.5))


async def test_a_base_model_completes_one_prompt(tmp_path: Path) -> None:
    with served_model() as server:
        async with served(tmp_path, base_url=server.base_url, protocol="completions") as backend:
            assert "conversation" not in backend.features
            await started(backend)
            await backend.generate(REQUEST)
        assert server.stats().by_path == {"/v1/completions": 1}


def built(folder: Path, servers: OwnedServers | None = None, **options: Any) -> VLLMServerBackend:
    backend: VLLMServerBackend = kind("backends").build(
        "vllm_server",
        options,
        secret=lambda _: "",
        concurrency=4,
        timeout_s=5.0,
        model="tiny",
        servers=servers or OwnedServers(),
        logs=folder,
        cache_dir=folder,
    )
    return backend


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": {"port": 8000}}, "port is set by the harness"),
        ({"engine": {"served_model_name": "x"}}, "Set model.name"),
        ({"engine": {"a b": 1}}, "not an engine argument"),
        ({"engine": {"hf_token": "hf_SECRET"}}, "variable HF_TOKEN"),
        ({"engine": {"tensor_parallel_size": 0}}, "must be 1 or more"),
        ({"engine": {"data_parallel_size": True}}, "must be 1 or more"),
        ({"engine": {"data_parallel_size": "two"}}, "must be 1 or more"),
        ({"base_url": "http://localhost:8000/v1", "engine": {"dtype": "half"}}, "has no effect"),
        ({"base_url": "http://localhost:8000/v1", "start_s": 5.0}, "start_s has no effect"),
        ({"base_url": "http://localhost:8000/v1", "restarts": 0}, "restarts has no effect"),
        ({"replicas": 2}, "model.replicas .*no longer supported.*data_parallel_size"),
        ({"replicas_at": ["http://localhost:8000/v1"]}, "replicas_at.*data_parallel_size"),
        ({"api_key_env": "KEY"}, "base_url is not set"),
        ({"protocol": "chatty"}, "protocol"),
        ({"base_url": "localhost:8000"}, "not a valid URL"),
        ({"restart": 2}, "Did you mean 'restarts'"),
    ],
)
def test_mistakes_are_told_before_any_work(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        built(tmp_path, **options)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"model\.path"):
        built(tmp_path, path=str(tmp_path / "nothing"))


def test_the_cache_knows_what_decides_an_answer_and_nothing_else(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    (weights / "model.safetensors").write_bytes(bytes(9_000_000))

    def endpoint(**options: Any) -> str:
        return built(tmp_path, **{"path": str(weights), **options}).endpoint

    first = endpoint()
    assert endpoint(gpus="0,1", start_s=5, restarts=0) == first
    assert endpoint(engine={"tensor_parallel_size": 2, "gpu_memory_utilization": 0.5}) == first
    others = {
        endpoint(engine={"dtype": "bfloat16"}),
        endpoint(engine={"quantization": "fp8"}),
        endpoint(protocol="completions"),
        endpoint(path="hub/name"),
        endpoint(lora="hub/adapter"),
        endpoint(engine={"load_format": "dummy"}),
    }
    assert len(others | {first}) == 7
    template = tmp_path / "template.jinja"
    templates = set()
    for text in ("{{ messages }}", "{{ messages[0] }}"):
        template.write_text(text)
        templates.add(endpoint(engine={"chat_template": str(template)}))
    moved_template = str(template.rename(tmp_path / "other.jinja"))
    templates.add(endpoint(engine={"chat_template": moved_template}))
    templates.add(endpoint(engine={"chat_template": text}))
    assert len(templates - {first}) == 3, "a template's content decides, and not its name"
    moved = tmp_path / "moved"
    weights.rename(moved)
    assert endpoint(path=str(moved)) == first, "the folder's name decides nothing"
    with (moved / "model.safetensors").open("r+b") as file:
        file.seek(4_321_000)
        file.write(b"1")
    assert endpoint(path=str(moved)) != first, "other weights of the same size"
    given = built(tmp_path, base_url="http://a:8000/v1/")
    assert given.endpoint == "http://a:8000/v1"


async def test_one_that_joins_a_server_that_is_dying_starts_another(tmp_path: Path) -> None:
    with OwnedServers() as servers:
        async with served(tmp_path, servers) as one, served(tmp_path, servers) as other:
            await started(one)
            [first] = Journal(tmp_path).lines("starts")
            # It is there, and answers no more: the one that joins it does not know that yet.
            os.kill(first["pid"], signal.SIGSTOP)
            joining = asyncio.create_task(other.start(lambda _: None))
            await asyncio.sleep(0)
            os.kill(first["pid"], signal.SIGKILL)
            await joining
            assert (await other.generate(REQUEST)).text
    assert len(Journal(tmp_path).lines("starts")) == 2


async def test_a_hanging_server_is_ended_and_started_again(tmp_path: Path) -> None:
    async with served(tmp_path) as backend:
        await started(backend)
        [first] = Journal(tmp_path).lines("starts")
        os.kill(first["pid"], signal.SIGSTOP)
        backend._patience_s = 0.2
        assert backend._server is not None
        backend._server._grace_s = 0.1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await backend.generate(REQUEST)
        assert backend._looking is not None
        assert not await backend._looking
        assert not backend.ready
        assert await patient(backend, REQUEST)
    until(lambda: not any(map(alive, Journal(tmp_path).pids())), "its processes are gone")


async def test_what_a_server_says_it_serves() -> None:
    with MockServer(models=["tiny", "other"], api_key="sk-1") as server:
        assert await healthy(server.base_url)
        assert await serves(server.base_url, "tiny", "sk-1")
        with pytest.raises(FatalCallError, match="serves 'tiny', 'other', but no model 'big'"):
            await serves(server.base_url, "big", "sk-1")
        with pytest.raises(FatalCallError, match=r"answered 401. Name the .*api_key_env"):
            await serves(server.base_url, "tiny")


async def test_one_that_is_away_or_silent_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (free_port(), silent.getsockname()[1]):
            assert not await healthy(f"http://127.0.0.1:{port}/v1", patience_s=0.2)


@pytest.mark.parametrize("body", ["{}", "[]", "nothing", '{"data": 3}', '{"data": [{"id": 3}]}'])
async def test_a_list_of_no_models_says_nothing(body: str) -> None:
    with answering(body) as (url, _):
        assert await healthy(url)
        assert not await serves(url, "tiny")


def test_arguments_that_change_no_answer_may_change() -> None:
    def owned(**options: object) -> RunFile:
        return run(model={"backend": "vllm_server", "name": "m", **options})

    one = owned(engine={"tensor_parallel_size": 2}, replicas=1, start_s=5.0)
    assert conflicting_keys(one, owned(gpus="0", engine={"dtype": "half"})) == []
    assert conflicting_keys(one, owned(lora="other")) == ["model.lora"]
    other = [run(model={"backend": "openai", "engine": engine}) for engine in ("a", "b")]
    assert conflicting_keys(*other) == ["model.engine"]
    judge = [
        judges(JUDGE | {"model": {"backend": "vllm_server", "name": "m", "restarts": number}})
        for number in (1, 2)
    ]
    assert conflicting_keys(*judge) == []
