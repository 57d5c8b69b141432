from pathlib import Path

import pytest

from harness.calls.signals import Stop, Stopping
from harness.errors import (
    ConfigError,
    FatalCallError,
    HarnessError,
    PromptRefused,
    TransientError,
)
from harness.plugins.builders.wildifeval.asking import StageAnswer
from harness.records import Decoding, Reply
from tests.plugins.builders.wildifeval.stage_models import Model, asking, question

QUESTIONS = [question(str(n), f"What is {n}?") for n in range(20)]
DECODING = Decoding(temperature=1.0, max_tokens=5)


def said(line: StageAnswer) -> str:
    return f"{line.outcome} {line.text}"


async def test_answers_come_in_the_order_of_the_questions(tmp_path: Path) -> None:
    model = Model(str.upper)
    found = await asking(tmp_path, model).ask("filter", QUESTIONS, DECODING, said, samples=2)
    assert found == [[f"ok WHAT IS {n}?"] * 2 for n in range(20)]
    assert len({request.seed for request in model.requests}) == 40
    assert all(request.decoding == DECODING for request in model.requests)


async def test_answered_questions_are_not_asked_again(tmp_path: Path) -> None:
    first, second = Model(str.upper), Model(str.lower)
    wanted = await asking(tmp_path, first).ask("filter", QUESTIONS[:15], DECODING, said)
    found = await asking(tmp_path, second).ask("filter", QUESTIONS, DECODING, said)
    assert found[:15] == wanted
    assert found[15:] == [[f"ok what is {n}?"] for n in range(15, 20)]
    assert len(second.requests) == 5


@pytest.mark.parametrize("change", ["decoding", "seed", "model"])
async def test_a_changed_question_is_asked(change: str, tmp_path: Path) -> None:
    await asking(tmp_path, Model(str.upper)).ask("filter", QUESTIONS, DECODING, said)
    other = Model(str.lower, name="n" if change == "model" else "m")
    await asking(tmp_path, other, seed=int(change == "seed")).ask(
        "filter",
        QUESTIONS,
        Decoding(temperature=0.0) if change == "decoding" else DECODING,
        said,
    )
    assert len(other.requests) == 20


async def test_the_same_question_about_two_things_is_asked_once(tmp_path: Path) -> None:
    model = Model(str.upper)
    same = [question("a", "Hi"), question("b", "Hi")]
    assert await asking(tmp_path, model).ask("filter", same, DECODING, said) == [["ok HI"]] * 2
    assert len(model.requests) == 1


async def test_failed_calls_fail_a_completed_stage_and_are_repeated(
    tmp_path: Path,
) -> None:
    failing = Model(lambda text: TransientError("broken") if "3?" in text else "fine")
    with pytest.raises(HarnessError, match=r"2 of 20 calls of the stage 'filter' failed.*broken"):
        await asking(tmp_path, failing).ask("filter", QUESTIONS, DECODING, said)
    asked = [request.messages[-1].content for request in failing.requests]
    assert sum(text.startswith("What is") for text in asked) == 20
    well = Model(lambda _: "fine")
    found = await asking(tmp_path, well).ask("filter", QUESTIONS, DECODING, said)
    assert found == [["ok fine"]] * 20
    assert len(well.requests) == 2


async def test_refused_empty_and_truncated_replies_are_answers(tmp_path: Path) -> None:
    def answer(text: str) -> Reply | Exception:
        number = int(text.split()[-1].strip("?"))
        replies = [Reply("", "stop"), Reply("Wh", "length"), Reply("No, I", "refusal")]
        return PromptRefused("too bad") if number % 4 == 3 else replies[number % 4]

    model = Model(answer)
    found = await asking(tmp_path, model).ask("filter", QUESTIONS[:4], DECODING, said)
    assert found == [["empty "], ["truncated Wh"], ["refused No, I"], ["refused too bad"]]


async def test_an_error_that_concerns_all_calls_ends_the_stage_at_once(tmp_path: Path) -> None:
    model = Model(lambda _: FatalCallError("no key"))
    with pytest.raises(FatalCallError):
        await asking(tmp_path, model).ask("filter", QUESTIONS, DECODING, said)
    assert len(model.requests) <= 4


async def test_a_stop_keeps_the_answers_so_far(tmp_path: Path) -> None:
    stop, asked = Stop(), list[str]()

    def answer(text: str) -> str:
        asked.append(text)
        if len(asked) == 7:
            stop.request()
        return "fine"

    with pytest.raises(Stopping):
        await asking(tmp_path, Model(answer), stop).ask("filter", QUESTIONS, DECODING, said)
    kept = len(asked)
    assert 7 <= kept < 20
    rest = Model(lambda _: "fine")
    await asking(tmp_path, rest).ask("filter", QUESTIONS, DECODING, said)
    assert len(rest.requests) == 20 - kept


async def test_unsupported_decoding_parameters(tmp_path: Path) -> None:
    plain = Model(str.upper, features=frozenset())
    await asking(tmp_path, plain).ask("filter", QUESTIONS[:1], DECODING, said)
    assert plain.requests[0].decoding == Decoding()
    assert plain.requests[0].seed is None
    with pytest.raises(ConfigError, match="asks for logprobs"):
        await asking(tmp_path, plain).ask("filter", QUESTIONS, Decoding(logprobs=5), said)


async def test_the_manifest_counts_each_call_of_a_stage_once(tmp_path: Path) -> None:
    build = asking(tmp_path, Model(str.upper))
    for questions in (QUESTIONS[:3], QUESTIONS[:5]):
        await build.ask("domains", questions, DECODING, said)
    facts = build.facts()["calls"]["domains"]
    assert (facts["answers"], facts["cached"], facts["input_tokens"]) == (5, 0, 50)
    assert facts["cost_usd"] == pytest.approx(0.5 * 5)
    again = asking(tmp_path, Model(str.upper))
    await again.ask("domains", QUESTIONS[:5], DECODING, said)
    assert again.facts()["calls"]["domains"]["cached"] == 5
