"""Seeds and log-probabilities: each backend sends them, or its features say that it does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.plugin_loader import kind
from harness.ports import LOGPROBS
from harness.records import Decoding, Message, Origin, Request

SEED = 123_456_789
REQUEST = Request(
    "m",
    (Message("user", "A colour?"),),
    Decoding(max_tokens=64, logprobs=3),
    0,
    Origin("a", 0, 1),
    SEED,
)
OPTIONS: dict[str, dict[str, Any]] = {
    "openai": {},
    "openai_responses": {},
    "anthropic": {},
}
INSTALLED = [name for name in OPTIONS if name in kind("backends").names()]
SEEDED = {"openai", "openai_completions", "gemini"}
LIKELIEST = {"openai", "openai_responses", "openai_completions", "gemini"}


@pytest.mark.parametrize("name", INSTALLED)
def test_seeds_and_logprobs_are_sent_or_not_supported(name: str) -> None:
    check_parameters(name, OPTIONS[name])


def check_parameters(name: str, options: dict[str, Any]) -> None:
    given = {"secret": str, "concurrency": 1, "timeout_s": 5.0, "model": "m"}
    backend: Any = kind("backends").build(name, options, **given)
    assert ("seed" in backend.features) == (name in SEEDED)
    assert (LOGPROBS in backend.features) == (name in LIKELIEST)
    body = msgspec.json.encode(backend.body(REQUEST)).decode()
    assert (str(SEED) in body) == (name in SEEDED)
    assert ("logprobs" in body) == (name in LIKELIEST)
