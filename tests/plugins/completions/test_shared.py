"""What the Completions API shares with OpenAI's other APIs, and where it differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.completions.backend import OpenAICompletionsBackend
from harness.ports import CONSTRAINTS
from tests.backends.answering import answering
from tests.backends.test_bodies import ASKING, OPTIONS, PRESETS, ask, check_logprobs
from tests.backends.test_openai import CONSTRAINED, check_sharing
from tests.backends.test_parameters import check_parameters
from tests.engine.test_models import SECRET, check_headers
from tests.scoring.judges.test_yes_no import check_probabilities


def test_the_legacy_endpoint_has_no_response_format() -> None:
    assert not OpenAICompletionsBackend("openai", **OPTIONS).features & CONSTRAINTS
    local = OpenAICompletionsBackend("llama_cpp_python", **OPTIONS)
    assert local.features & CONSTRAINTS == {"grammar"}
    vllm = OpenAICompletionsBackend("vllm", **OPTIONS)
    assert vllm.features & CONSTRAINTS == CONSTRAINTS


async def test_logprobs_come_with_the_answer_if_they_are_requested() -> None:
    await check_logprobs(OpenAICompletionsBackend)


async def test_the_request_asks_for_a_number_of_logprobs() -> None:
    with answering(json.dumps({"choices": [{"text": "No"}]})) as (url, received):
        assert (await ask(OpenAICompletionsBackend, url, ASKING)).logprobs is None
    assert json.loads(received[0].partition(b"\r\n\r\n")[2])["logprobs"] == 3


@pytest.mark.parametrize("kind", CONSTRAINED)
@pytest.mark.parametrize("home", [*PRESETS, None])
def test_replies_are_shared_only_if_the_constraint_is_sent_alike(
    kind: Any, home: str | None
) -> None:
    check_sharing(OpenAICompletionsBackend, kind, home)


async def test_probabilities_come_over_the_wire() -> None:
    await check_probabilities(OpenAICompletionsBackend)


def test_seeds_and_logprobs_are_sent() -> None:
    check_parameters("openai_completions", {})


async def test_headers_are_sent_and_their_secrets_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", SECRET)
    await check_headers({"backend": "openai_completions"}, tmp_path)
