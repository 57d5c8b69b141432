import math
from pathlib import Path

import pytest

from harness.builders.wildifeval.agreement import yes_probabilities
from harness.builders.wildifeval.questions import Question
from harness.config.curation import FilterSection
from harness.errors import ConfigError, HarnessError, PromptRefused, TransientError
from harness.records import Reply, TokenLogprob
from tests.builders.wildifeval.stage_models import FEATURES, Model, asking

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
    found = await yes_probabilities(asking(tmp_path, model), "filter", QUESTIONS, FilterSection())
    assert found == [1.0, pytest.approx(0.2 / 0.9), None, None]
    assert {request.decoding.logprobs for request in model.requests} == {5}
    again = Model(answer, FEATURES | {"logprobs"})
    assert found == await yes_probabilities(
        asking(tmp_path, again), "filter", QUESTIONS, FilterSection()
    )
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
    found = await yes_probabilities(
        asking(tmp_path, model), "filter", QUESTIONS, FilterSection(votes=votes)
    )
    assert found == [1.0, 0.0, None, pytest.approx(1 / times)]
    assert len(model.requests) == 4 * times


MANY = [Question(str(n), f"{n}?") for n in range(240)]


@pytest.mark.parametrize(
    ("reply", "votes", "said"),
    [
        (
            Reply("Yes", "stop"),
            None,
            r"no log-probabilities of an answer were told; they say 'Yes'.*filter\.votes=5\.$",
        ),
        (
            Reply("", "length", reasoning="Okay, so"),
            None,
            r"no log-probabilities of an.*; 20 have no text.*votes=5 and .*max_tokens=4000",
        ),
        (
            Reply("Okay", "length", logprobs=((TokenLogprob("Okay", -0.1),),)),
            None,
            r"they say 'Okay'.*thinks.*filter\.votes=5 and filter\.max_tokens=4000.*models\.filter",
        ),
        (
            Reply("Yes", "stop", reasoning="Hm.", logprobs=((TokenLogprob("No", -0.1),),)),
            None,
            r"no log-probabilities of an answer were told; they say 'Yes'.*filter\.votes=5\.$",
        ),
        (Reply("", "length"), 3, r"20 have no text.*filter\.max_tokens=4000"),
        (Reply("Hm.\x1b[2J", "stop"), 3, r"they say 'Hm\.\\x1b\[2J'.*models\.filter"),
    ],
)
async def test_a_stage_is_not_paid_for_whose_first_replies_are_of_no_use(
    reply: Reply, votes: int | None, said: str, tmp_path: Path
) -> None:
    features = FEATURES | {"logprobs"}
    kept = 20 if reply.text else 0  # an empty reply may be an outage's, and is never cached
    for calls in (20, 20 - kept):  # the same command again says the same
        model = Model(lambda _: reply, features)
        with pytest.raises(ConfigError, match=f"(?s)'filter'.*first 20 replies.*{said}"):
            await yes_probabilities(
                asking(tmp_path, model), "filter", MANY, FilterSection(votes=votes)
            )
        assert len(model.requests) == calls


async def test_one_reply_that_can_be_read_is_enough_to_go_on(tmp_path: Path) -> None:
    model = Model(lambda text: "yes" if text in ("7?", "50?") else Reply("", "length"))
    found = await yes_probabilities(
        asking(tmp_path, model), "filter", MANY, FilterSection(votes=3, max_tokens=9)
    )
    assert [n for n, one in enumerate(found) if one is not None] == [7, 50]
    assert len(model.requests) == 3 * len(MANY)
    assert {request.decoding.max_tokens for request in model.requests} == {9}


async def test_refusals_and_failures_of_the_first_do_not_stop_it(tmp_path: Path) -> None:
    def answer(text: str) -> str | Exception:
        number = int(text[:-1])
        if number == 3:
            return TransientError("broken")
        return PromptRefused("no") if number < 20 else "yes"

    model = Model(answer)
    with pytest.raises(HarnessError, match="1 of 240 calls"):
        await yes_probabilities(asking(tmp_path, model), "filter", MANY, FilterSection(votes=1))
    assert len(model.requests) == len(MANY)
    well = Model(lambda _: "no")
    found = await yes_probabilities(asking(tmp_path, well), "filter", MANY, FilterSection(votes=1))
    assert found == [0.0 if n == 3 else None if n < 20 else 1.0 for n in range(240)]
