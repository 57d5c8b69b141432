import math
from pathlib import Path

import pytest

from harness.build.wildifeval.agreement import yes_probabilities
from harness.build.wildifeval.questions import Question
from harness.errors import ConfigError
from harness.records import Reply, TokenLogprob
from tests.build.wildifeval.stage_models import FEATURES, Model, asking

QUESTIONS = [Question(str(n), f"{n}?") for n in range(4)]


async def test_it_is_read_off_the_first_tokens(tmp_path: Path) -> None:
    def answer(text: str) -> Reply:
        if text == "3?":
            return Reply("No, I will not.", "refusal", logprobs=((TokenLogprob("No", -0.1),),))
        yes = (0.9, 0.2, 0.0)[int(text[0])]
        tokens = [("Yes", yes), ("no", 0.9 - yes)] if yes else [("Well", 0.9)]
        likeliest = tuple(TokenLogprob(t, math.log(p)) for t, p in tokens if p)
        return Reply("…", "stop", logprobs=(likeliest,))

    model = Model(answer, FEATURES | {"logprobs"})
    found = await yes_probabilities(asking(tmp_path, model), "filter", QUESTIONS, None)
    assert found == [1.0, pytest.approx(0.2 / 0.9), None, None]
    assert {request.decoding.logprobs for request in model.requests} == {5}
    again = Model(answer, FEATURES | {"logprobs"})
    assert found == await yes_probabilities(asking(tmp_path, again), "filter", QUESTIONS, None)
    assert again.requests == []


@pytest.mark.parametrize(("votes", "times"), [(None, 5), (3, 3)])
async def test_or_voted_on(votes: int | None, times: int, tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return {"0?": "Yes.", "1?": "no", "2?": "It depends"}.get(
            text, "yes" if asked.count(text) == 1 else "no"
        )

    model = Model(answer)
    found = await yes_probabilities(asking(tmp_path, model), "filter", QUESTIONS, votes)
    assert found == [1.0, 0.0, None, pytest.approx(1 / times)]
    assert len(model.requests) == 4 * times


async def test_a_model_that_tells_none_in_spite_of_its_word_is_told_of(tmp_path: Path) -> None:
    model = Model(lambda _: "Yes", FEATURES | {"logprobs"})
    with pytest.raises(ConfigError, match=r"told no log-probabilities.*filter\.votes=5"):
        await yes_probabilities(asking(tmp_path, model), "filter", QUESTIONS, None)
