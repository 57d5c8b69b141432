import asyncio
import math
import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pytest

from harness.backends.simulated import WRONG_ANSWER, SimulatedBackend
from harness.calls.keys import provider_seed
from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.records import Decoding, Message, Origin, Request, messages_hash


def gold(instance: str) -> str | None:
    return None if instance == "without" else f"the gold of {instance}"


def request(
    instance: str, *, sample: int = 0, number: int = 1, run_seed: int | None = 0
) -> Request:
    messages = (Message("user", f"Solve {instance}."),)
    seed = None if run_seed is None else provider_seed(run_seed, messages_hash(messages), sample)
    return Request("m", messages, Decoding(), sample, Origin(instance, sample, number), seed=seed)


async def answers(backend: SimulatedBackend, requests: Sequence[Request]) -> list[str]:
    return [reply.text for reply in await asyncio.gather(*map(backend.generate, requests))]


async def rate(backend: SimulatedBackend, number: int = 1, count: int = 4000) -> float:
    asked = [request(str(one), number=number) for one in range(count)]
    found = await answers(backend, asked)
    assert set(found) <= {WRONG_ANSWER, *(gold(str(one)) for one in range(count))}
    return fmean(text != WRONG_ANSWER for text in found)


@pytest.mark.parametrize("accuracy", [0.1, 0.5, 0.9])
async def test_the_rate_approaches_the_accuracy(accuracy: float) -> None:
    backend = SimulatedBackend(accuracy, gold=gold)
    deviation = (accuracy * (1 - accuracy) / 4000) ** 0.5
    assert await rate(backend) == pytest.approx(accuracy, abs=4 * deviation)


@pytest.mark.parametrize(("accuracy", "expected"), [(0, 0), (1, 1)])
async def test_certainty_is_certain(accuracy: float, expected: float) -> None:
    assert await rate(SimulatedBackend(accuracy, 0, gold=gold), count=300) == expected


async def test_the_rate_rises_with_each_round_of_feedback() -> None:
    backend = SimulatedBackend(0.4, 0.5, gold=gold)
    rates = [await rate(backend, number) for number in (1, 2, 3, 4)]
    assert rates == pytest.approx([0.4, 0.7, 0.85, 0.925], abs=0.03)
    assert rates == sorted(rates)


async def test_without_gain_rounds_do_not_help() -> None:
    backend = SimulatedBackend(0.5, 0, gold=gold)
    assert await rate(backend, 4) == pytest.approx(0.5, abs=0.03)


async def test_the_same_request_has_the_same_answer_in_any_order() -> None:
    asked = [
        request(str(one), sample=sample, number=number)
        for one in range(50)
        for sample in range(3)
        for number in (1, 2)
    ]
    first = await answers(SimulatedBackend(gold=gold), asked)
    order = list(range(len(asked)))
    random.Random(1).shuffle(order)
    shuffled = await answers(SimulatedBackend(gold=gold), [asked[place] for place in order])
    assert shuffled == [first[place] for place in order]
    assert len(set(first)) > 1


async def test_samples_rounds_and_run_seeds_are_independent_draws() -> None:
    backend = SimulatedBackend(0.5, 0, gold=gold)
    ids = [str(one) for one in range(300)]
    drawn = [
        await answers(backend, [request(one, **changes) for one in ids])
        for changes in (
            *({}, {"sample": 1}, {"number": 2}, {"run_seed": 1}),
            *({"run_seed": None}, {"run_seed": None, "sample": 1}),
        )
    ]
    for place, one in enumerate(drawn):
        for other in drawn[:place]:
            same = fmean(a == b for a, b in zip(one, other, strict=True))
            assert same == pytest.approx(0.5, abs=0.15)


async def test_waiting_does_not_change_the_answers() -> None:
    asked = [request(str(one)) for one in range(100)]
    slow = await answers(SimulatedBackend(latency_s=0.001, gold=gold), asked)
    assert slow == await answers(SimulatedBackend(gold=gold), asked)


async def test_without_a_gain_each_round_is_a_new_draw_of_the_same_accuracy() -> None:
    backend = SimulatedBackend(0.4, 0, gold=gold)
    asked = [request(str(one)) for one in range(4000)]
    wrong = []
    for one, text in zip(asked, await answers(backend, asked), strict=True):
        if text == WRONG_ANSWER:
            wrong.append(request(one.origin.instance, number=2))
    corrected = [text != WRONG_ANSWER for text in await answers(backend, wrong)]
    assert fmean(corrected) == pytest.approx(0.4, abs=0.03)


async def test_an_instance_without_a_gold_is_never_right() -> None:
    reply = await SimulatedBackend(1.0, gold=gold).generate(request("without"))
    assert reply.text == WRONG_ANSWER


async def test_a_reply_counts_tokens_and_names_no_model() -> None:
    reply = await SimulatedBackend(1.0, gold=gold).generate(request("a"))
    assert reply.usage is not None
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0
    assert reply.model == "simulated"
    assert reply.finish_reason == "stop"


def test_it_says_that_it_is_simulated_and_is_not_worth_keeping() -> None:
    backend = SimulatedBackend(gold=gold)
    assert {"simulated", "by_instance"} <= backend.features
    assert not backend.cacheable


@pytest.mark.parametrize(
    ("option", "values"),
    [("accuracy", (-0.1, 1.1, math.nan)), ("gain", (-0.1, 50)), ("latency_s", (-1, math.inf))],
)
def test_options_are_probabilities_and_times(option: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=f"'{option}' of the backend 'simulated': input shou"):
            kind("backends").build("simulated", {option: value}, gold=gold)


async def test_it_is_built_through_the_door_of_plug_ins() -> None:
    given: dict[str, Any] = {"gold": gold, "secret": None, "read": None}
    built = kind("backends").build("simulated", {"accuracy": 1}, **given)
    assert (await built.generate(request("a"))).text == "the gold of a"
    await built.aclose()


async def test_a_judges_model_replies_what_the_judge_says_and_learns_nothing() -> None:
    made = SimulatedBackend(0.5, 1.0, gold=gold, reply=lambda asked: asked.messages[0].content)
    asked = [request(str(one), number=3) for one in range(4000)]
    found = await answers(made, asked)
    assert set(found) == {WRONG_ANSWER, *(f"Solve {one}." for one in range(4000))} & set(found)
    assert fmean(text != WRONG_ANSWER for text in found) == pytest.approx(0.5, abs=0.03)
    assert found == await answers(made, asked)


async def test_a_habit_replaces_a_share_of_the_answers() -> None:
    asked = [request(str(one)) for one in range(2000)]
    plain = await answers(SimulatedBackend(accuracy=0.5, gold=gold), asked)
    habit = SimulatedBackend(accuracy=0.5, habit="A", habit_share=0.25, gold=gold)
    found = await answers(habit, asked)
    assert 0.22 < found.count("A") / 2000 < 0.28
    others = [(own, before) for own, before in zip(found, plain, strict=True) if own != "A"]
    assert all(own == before for own, before in others)
