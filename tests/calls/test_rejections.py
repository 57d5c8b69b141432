from uuid import NAMESPACE_URL, uuid5

import pytest

from harness.calls.calls import PaidElsewhere
from harness.calls.rejections import MAX_REJECTED_PROMPTS, RejectionLimit
from harness.errors import (
    CallError,
    FatalCallError,
    PromptRefused,
    PromptTooLong,
    RequestRejected,
    TransientError,
)
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.conftest import Scripted

MESSAGE = "http://x answered 400: System role not supported"


def request(number: int, sample: int = 0) -> Request:
    messages = (Message("user", f"What is {number} + 1?"),)
    return Request("m", messages, Decoding(), sample, Origin(f"{number}", sample, 1))


def in_letters(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:02}")


async def errors(call: RejectionLimit, *requests: Request) -> list[type[CallError]]:
    ended = []
    for sent in requests:
        with pytest.raises(CallError) as caught:
            await call(sent)
        ended.append(caught.type)
    return ended


@pytest.mark.parametrize(
    "reason",
    [
        "(request id: req_011CeG{id})",
        "(request id: 20261130{id})",
        "(request id: {uuid})",
        "(trace {uuid:.8})",
        "for the model m-{number}",
        "in '{prompt}'",
        "in '{prompt:.45}…'",
    ],
)
async def test_many_prompts_that_are_rejected_alike_end_the_run(reason: str) -> None:
    def rejected(sent: Request) -> RequestRejected:
        prompt = " ".join(sent.messages[0].content.split())
        number = sent.origin.instance
        values = {"id": 10**9 + 7 * int(number), "uuid": str(uuid5(NAMESPACE_URL, number))}
        return RequestRejected(f"{MESSAGE} {reason.format(number=number, prompt=prompt, **values)}")

    call = RejectionLimit(Scripted(rejected).generate)
    requests = [
        Request("m", (Message("user", f"{word}\n  {word}, what is it?"),), Decoding(), 0, origin)
        for number in range(MAX_REJECTED_PROMPTS + 1)
        for word in [in_letters(number) * 9]
        for origin in [Origin(f"{number}", 0, 1)]
    ]
    *first, last = await errors(call, *requests[:-1])
    assert first == [RequestRejected] * (MAX_REJECTED_PROMPTS - 1)
    assert last is FatalCallError
    with pytest.raises(FatalCallError, match=MESSAGE):
        await call(requests[-1])


async def test_a_short_prompt_may_be_a_word_of_the_reason() -> None:
    call = RejectionLimit(Scripted(lambda _: RequestRejected(MESSAGE)).generate)
    letters = [Message("user", letter) for letter in "abcdefghijklmnopqrst"]
    requests = [Request("m", (one,), Decoding(), 0, Origin("a", 0, 1)) for one in letters]
    assert (await errors(call, *requests))[-1] is FatalCallError


@pytest.mark.parametrize("works", [True, False])
async def test_a_control_that_is_answered_keeps_the_run_going(works: bool) -> None:
    asked: list[str] = []

    async def control(sent: Request) -> Reply:
        asked.append(sent.messages[-1].content)
        if works:
            return Reply("2", "stop")
        raise RequestRejected(MESSAGE)

    rejected = Scripted(lambda _: RequestRejected(MESSAGE)).generate
    call = RejectionLimit(rejected, lambda: request(1), control)
    ended = await errors(call, *(request(number) for number in range(2 * MAX_REJECTED_PROMPTS)))
    assert ended.count(FatalCallError) == (0 if works else 2)
    assert all(one.startswith("What is 1 + 1? (") for one in asked)
    assert len(asked) == 2


async def test_samples_of_few_prompts_do_not() -> None:
    call = RejectionLimit(Scripted(lambda _: RequestRejected(MESSAGE)).generate)
    requests = [request(n, sample) for n in range(MAX_REJECTED_PROMPTS - 1) for sample in range(5)]
    assert set(await errors(call, *requests)) == {RequestRejected}


@pytest.mark.parametrize(
    "error",
    [PromptRefused(MESSAGE), PromptTooLong(MESSAGE), TransientError(MESSAGE), CallError(MESSAGE)],
)
async def test_other_failures_do_not(error: CallError) -> None:
    call = RejectionLimit(Scripted(lambda _: error).generate)
    requests = [request(number) for number in range(3 * MAX_REJECTED_PROMPTS)]
    assert set(await errors(call, *requests)) == {type(error)}


async def test_different_messages_do_not() -> None:
    def rejected(sent: Request) -> RequestRejected:
        return RequestRejected(f"{MESSAGE}: {in_letters(int(sent.origin.instance))}")

    call = RejectionLimit(Scripted(rejected).generate)
    requests = [request(number) for number in range(3 * MAX_REJECTED_PROMPTS)]
    assert set(await errors(call, *requests)) == {RequestRejected}


@pytest.mark.parametrize("batched", [False, True])
async def test_an_answer_between_them_makes_the_count_begin_again(batched: bool) -> None:
    reply = Reply("2", "stop")
    backend = Scripted(lambda _: RequestRejected(MESSAGE))
    call = RejectionLimit(backend.generate)
    for _ in range(3):
        requests = [request(number) for number in range(MAX_REJECTED_PROMPTS - 1)]
        assert set(await errors(call, *requests)) == {RequestRejected}
        backend.answer = lambda _: PaidElsewhere(reply) if batched else reply
        if batched:
            with pytest.raises(PaidElsewhere):
                await call(request(100))
        else:
            assert await call(request(100)) == reply
        backend.answer = lambda _: RequestRejected(MESSAGE)


async def test_a_reply_from_the_cache_does_too() -> None:
    call = RejectionLimit(Scripted(lambda _: RequestRejected(MESSAGE)).generate)
    for _ in range(3):
        requests = [request(number) for number in range(MAX_REJECTED_PROMPTS - 1)]
        assert set(await errors(call, *requests)) == {RequestRejected}
        call.reset()
