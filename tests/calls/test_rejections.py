import pytest

from harness.calls.claimed_calls import PaidElsewhere
from harness.calls.rejections import DIFFERENT_PROMPTS, RejectionLimit
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


async def errors(call: RejectionLimit, *requests: Request) -> list[type[CallError]]:
    ended = []
    for sent in requests:
        with pytest.raises(CallError) as caught:
            await call(sent)
        ended.append(caught.type)
    return ended


async def test_many_prompts_that_are_rejected_alike_end_the_run() -> None:
    ids = iter(range(10**9, 2 * 10**9))
    call = RejectionLimit(
        Scripted(
            lambda _: RequestRejected(f"{MESSAGE} (request id: req_011CeG{next(ids)})")
        ).generate
    )
    requests = [request(number) for number in range(DIFFERENT_PROMPTS)]
    *first, last = await errors(call, *requests)
    assert first == [RequestRejected] * (DIFFERENT_PROMPTS - 1)
    assert last is FatalCallError
    with pytest.raises(FatalCallError, match=MESSAGE):
        await call(request(100))


async def test_samples_of_few_prompts_do_not() -> None:
    call = RejectionLimit(Scripted(lambda _: RequestRejected(MESSAGE)).generate)
    requests = [request(n, sample) for n in range(DIFFERENT_PROMPTS - 1) for sample in range(5)]
    assert set(await errors(call, *requests)) == {RequestRejected}


@pytest.mark.parametrize(
    "error",
    [PromptRefused(MESSAGE), PromptTooLong(MESSAGE), TransientError(MESSAGE), CallError(MESSAGE)],
)
async def test_other_failures_do_not(error: CallError) -> None:
    call = RejectionLimit(Scripted(lambda _: error).generate)
    requests = [request(number) for number in range(3 * DIFFERENT_PROMPTS)]
    assert set(await errors(call, *requests)) == {type(error)}


async def test_different_messages_do_not() -> None:
    call = RejectionLimit(Scripted(lambda sent: RequestRejected(sent.messages[0].content)).generate)
    requests = [request(number) for number in range(3 * DIFFERENT_PROMPTS)]
    assert set(await errors(call, *requests)) == {RequestRejected}


@pytest.mark.parametrize("batched", [False, True])
async def test_an_answer_between_them_makes_the_count_begin_again(batched: bool) -> None:
    reply = Reply("2", "stop")
    backend = Scripted(lambda _: RequestRejected(MESSAGE))
    call = RejectionLimit(backend.generate)
    for _ in range(3):
        requests = [request(number) for number in range(DIFFERENT_PROMPTS - 1)]
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
        requests = [request(number) for number in range(DIFFERENT_PROMPTS - 1)]
        assert set(await errors(call, *requests)) == {RequestRejected}
        call.clear()
