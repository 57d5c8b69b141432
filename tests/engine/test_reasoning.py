"""The call stack's top separates the reasoning of replies, whatever backend made them."""

from __future__ import annotations

import time
from math import log

import pytest
from msgspec.structs import replace

from harness.calls.calls import ReplyUnsaved
from harness.engine.reasoning import RecordedReasoning, SeparatedCalls, mark_warnings
from harness.errors import StoreFailed
from harness.records import Attempt, Call, Decoding, Message, Origin, Reply, Request, TokenLogprob
from harness.scoring.reasoning import Reasoning

REQUEST = Request("m", (Message("user", "Is it?"),), Decoding(), 0, Origin("a", 0, 1))
TEXT = "<think>\n\n</think>\n\nYes"


def tokens(*texts: str) -> tuple[tuple[TokenLogprob, ...], ...]:
    return tuple((TokenLogprob(text, log(0.9)), TokenLogprob("other", log(0.1))) for text in texts)


async def ask(reply: Reply, request: Request = REQUEST, *, evaluated: bool = True) -> Reply:
    async def calls(_: Request) -> Call:
        return Call("ab", reply, True, 1.0, 2.0)

    call = await SeparatedCalls(calls, Reasoning(), evaluated)(request)
    assert (call.id, call.cached, call.started_at) == ("ab", True, 1.0)
    return call.reply


async def test_other_fields_of_the_reply_stay() -> None:
    reply = Reply(TEXT, "length", model="n", reasoning_state="{}", cost_usd=0.5, tier="flex")
    assert await ask(reply) == replace(reply, text="Yes", reasoning="")
    reply = Reply(TEXT, "stop", reasoning="By the provider.")
    assert (await ask(reply)).reasoning == "By the provider."
    plain = Reply("Yes", "stop", logprobs=tokens("Yes"))
    assert await ask(plain) is plain


async def test_log_probabilities_are_those_of_the_answer() -> None:
    known = tokens("<think>", "\n\n", "</think>", "\n\n", "Yes", ".")
    assert (await ask(Reply(TEXT, "stop", logprobs=known))).logprobs == tokens("Yes", ".")
    for other in (tokens("\n\n", "\n\n", "Yes"), tokens("<think>", "\n\n"), ()):
        assert (await ask(Reply(TEXT, "stop", logprobs=other))).logprobs is None


@pytest.mark.parametrize("change", [{"loglikelihoods": True}, {"window": 8}])
async def test_scored_texts_are_not_separated(change: dict[str, int]) -> None:
    reply = Reply(TEXT, "stop")
    assert await ask(reply, replace(REQUEST, **change)) is reply


@pytest.mark.parametrize(("mark", "asked_for"), [("reasoning", True), ("think", False)])
async def test_shots_may_ask_for_marks_and_the_models_own_answers_do_not(
    mark: str, asked_for: bool
) -> None:
    text = TEXT.replace("think", mark)
    shot = Message("assistant", f"<{mark}>a</{mark}>b")
    user = Message("user", "Is it?")
    few_shot = replace(REQUEST, messages=(user, shot, user))
    assert (await ask(Reply(text, "stop"), few_shot)).text == (text if asked_for else "Yes")
    second = replace(few_shot, origin=Origin("a", 0, 2))
    assert (await ask(Reply(text, "stop"), second)).text == "Yes"


async def test_only_the_system_message_of_a_judge_mentions_marks() -> None:
    for role, text in (("user", "Yes"), ("system", TEXT)):
        said = (Message(role, "Use <think>."), Message("user", "Is it?"))  # type: ignore[arg-type]
        request = replace(REQUEST, messages=said)
        assert (await ask(Reply(TEXT, "stop"), request, evaluated=False)).text == text
        assert (await ask(Reply(TEXT, "stop"), request)).text == TEXT


async def test_a_reply_that_cannot_be_saved_is_separated_too() -> None:
    async def calls(_: Request) -> Call:
        raise ReplyUnsaved(StoreFailed("disk full"), Call("ab", Reply(TEXT, "stop"), False, 0, 1))

    with pytest.raises(ReplyUnsaved) as error:
        await SeparatedCalls(calls, Reasoning())(REQUEST)
    assert error.value.call.reply.text == "Yes"


def test_a_recorded_answer_is_separated_once() -> None:
    attempt = Attempt(1, "a", 0, 1, {}, "a", {}, "ok", 0.0, 1.0, TEXT, finish_reason="stop")
    separated = RecordedReasoning(Reasoning()).separate(attempt, ())
    assert (separated.text, separated.reasoning) == ("Yes", "")
    again = replace(separated, text="Yes\n</think>\nNo")  # an answer that has a mark, too
    assert RecordedReasoning(Reasoning()).separate(again, ()) is again


def test_warnings_name_the_key_and_the_count() -> None:
    (first, second) = mark_warnings({"[REASON]": 1, "<|foo|>": 1_200}, "judges.nice.model")
    assert first.startswith("1,200 answers begin with <|foo|>")
    assert "judges.nice.model.reasoning: [known, ['[REASON]', '[/REASON]']]" in second


async def test_a_long_reply_takes_little_time() -> None:
    began = time.process_time()
    await ask(Reply("The answer is 4. " * 60_000, "stop"))
    assert time.process_time() - began < 0.5
