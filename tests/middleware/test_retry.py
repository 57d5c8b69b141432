import contextlib

import pytest

from harness.errors import (
    AuthenticationFailed,
    CallError,
    ConnectionFailed,
    MalformedReply,
    ProviderDown,
    RateLimited,
    RequestRejected,
    ServerFailed,
    TimedOut,
)
from harness.middleware.retry import (
    FAILURES_IN_A_ROW,
    FIRST_CONTACT_TRIES,
    FIRST_FAILURES,
    Retry,
)
from harness.records import Decoding, Message, Origin, Request
from tests.conftest import Scripted

REQUEST = Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0, Origin("a", 0, 1))


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def failing(*errors: Exception) -> Scripted:
    """A backend that fails in this way, then answers."""
    left = list(errors)
    return Scripted(lambda _: left.pop(0) if left else "2")


@pytest.mark.parametrize("kind", [RateLimited, ServerFailed, TimedOut, MalformedReply])
async def test_transient_errors_are_tried_again(kind: type[CallError]) -> None:
    backend, sleeps = failing(kind("a"), kind("b")), Sleeps()
    reply = await Retry(backend.generate, attempts=6, sleep=sleeps)(REQUEST)
    assert reply.text == "2"
    assert len(sleeps) == 2


@pytest.mark.parametrize("error", [RequestRejected("no"), AuthenticationFailed("no"), ValueError()])
async def test_nothing_else_is_tried_again(error: Exception) -> None:
    backend, sleeps = failing(error), Sleeps()
    with pytest.raises(type(error)):
        await Retry(backend.generate, attempts=6, sleep=sleeps)(REQUEST)
    assert len(backend.requests) == 1
    assert not sleeps


async def test_after_so_many_attempts_the_last_error_is_raised() -> None:
    backend = failing(*(ServerFailed(str(n)) for n in range(9)))
    with pytest.raises(ServerFailed, match="3"):
        await Retry(backend.generate, attempts=4, sleep=Sleeps())(REQUEST)
    assert len(backend.requests) == 4


async def test_no_try_begins_after_the_total_time() -> None:
    backend = failing(*(ServerFailed(str(n)) for n in range(9)))
    with pytest.raises(ServerFailed):
        await Retry(backend.generate, attempts=9, total_s=0, sleep=Sleeps())(REQUEST)
    assert len(backend.requests) == 1


async def test_a_wait_is_at_least_what_the_provider_asks_for() -> None:
    backend, sleeps = failing(RateLimited("slow down", retry_after=20.0)), Sleeps()
    await Retry(backend.generate, attempts=6, sleep=sleeps)(REQUEST)
    assert 20.0 <= sleeps[0] <= 21.0


async def test_waits_are_jittered_and_grow() -> None:
    firsts, lasts = [], []
    for _ in range(50):
        backend, sleeps = failing(*[ServerFailed("x")] * 5), Sleeps()
        await Retry(backend.generate, attempts=6, sleep=sleeps)(REQUEST)
        firsts.append(sleeps[0])
        lasts.append(sleeps[-1])
    assert max(firsts) <= 0.5
    assert len(set(firsts)) > 40
    assert sum(lasts) > 4 * sum(firsts)


async def test_a_provider_that_was_never_reached_ends_the_run_soon() -> None:
    backend = Scripted(lambda _: ConnectionFailed("refused"))
    with pytest.raises(ProviderDown, match="refused"):
        await Retry(backend.generate, attempts=6, sleep=Sleeps())(REQUEST)
    assert len(backend.requests) == FIRST_CONTACT_TRIES


@pytest.mark.parametrize("first", ["2", ServerFailed("busy")])
async def test_one_that_was_reached_is_tried_as_often_as_any(first: str | Exception) -> None:
    answers = iter([first] + (["2"] if isinstance(first, Exception) else []))
    backend = Scripted(lambda _: next(answers, None) or ConnectionFailed("refused"))
    retry = Retry(backend.generate, attempts=6, sleep=Sleeps())
    await retry(REQUEST)
    backend.requests.clear()
    with pytest.raises(ConnectionFailed):
        await retry(REQUEST)
    assert len(backend.requests) == 6


@pytest.mark.parametrize(
    ("answered", "calls"), [(False, FIRST_FAILURES), (True, FAILURES_IN_A_ROW)]
)
async def test_a_provider_that_fails_continually_ends_the_run(answered: bool, calls: int) -> None:
    backend = Scripted()
    retry = Retry(backend.generate, attempts=1, sleep=Sleeps())
    if answered:
        await retry(REQUEST)
    backend.answer = lambda _: ServerFailed("overloaded")
    for _ in range(calls - 1):
        with pytest.raises(ServerFailed):
            await retry(REQUEST)
    with pytest.raises(ProviderDown, match="overloaded"):
        await retry(REQUEST)


async def test_rejected_requests_are_no_outage() -> None:
    backend = Scripted(lambda _: RequestRejected("too long"))
    retry = Retry(backend.generate, attempts=1, sleep=Sleeps())
    for _ in range(3 * FAILURES_IN_A_ROW):
        with pytest.raises(RequestRejected):
            await retry(REQUEST)


async def test_one_answer_in_between_is_a_provider_that_is_well() -> None:
    backend = Scripted()
    retry = Retry(backend.generate, attempts=1, sleep=Sleeps())
    for number in range(10 * FAILURES_IN_A_ROW):
        backend.answer = lambda _, n=number: "2" if n % 20 == 0 else ServerFailed("busy")
        with contextlib.suppress(ServerFailed):
            await retry(REQUEST)
