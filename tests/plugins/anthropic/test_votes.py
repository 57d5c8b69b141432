"""A judge whose provider states no probabilities asks for votes."""

import pytest

from harness.plugins.anthropic.backend import AnthropicBackend
from harness.plugins.mock.server import MockServer
from tests.scoring.judges.test_yes_no import OPTIONS, judged


async def test_a_provider_that_tells_none_is_asked_for_votes() -> None:
    # Five of each criterion, asked one after the other: 3 of 5, 1 of 4 and one that is none, none.
    votes = iter(["Yes", "No", "Yes", "yes.", "no", "No", "no", "Yes", "No", "Hm", *["Hm"] * 5])
    with MockServer(answers=lambda ask, index: next(votes)) as server:
        backend = AnthropicBackend("2023-06-01", server.url, **OPTIONS)
        scores = await judged(backend, max_tokens=20)
        assert server.stats().requests == 15
    lines, snow, kind = scores["strict"].details["constraints"]
    assert lines["probability"] == pytest.approx(3 / 5)
    assert snow["probability"] == pytest.approx(1 / 4)
    assert kind["probability"] is None
    assert (scores["strict"].value, scores["soft"].value) == (False, 0.5)
