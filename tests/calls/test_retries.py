import pytest

from harness.calls.retries import Retry
from harness.errors import FailureKind, FatalCallError, RequestRejected, TransientError
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


@pytest.mark.parametrize("kind", ["rate_limited", "server_failed", "timed_out", "malformed"])
async def test_transient_errors_are_tried_again(kind: FailureKind) -> None:
    backend, sleeps = (
        failing(TransientError("a", kind=kind), TransientError("b", kind=kind)),
        Sleeps(),
    )
    reply = await Retry(backend.generate, tries=6, sleep=sleeps)(REQUEST)
    assert reply.text == "2"
    assert len(sleeps) == 2


@pytest.mark.parametrize("error", [RequestRejected("no"), FatalCallError("no"), ValueError()])
async def test_nothing_else_is_tried_again(error: Exception) -> None:
    backend, sleeps = failing(error), Sleeps()
    with pytest.raises(type(error)):
        await Retry(backend.generate, tries=6, sleep=sleeps)(REQUEST)
    assert len(backend.requests) == 1
    assert not sleeps


async def test_after_so_many_attempts_the_last_error_is_raised() -> None:
    backend = failing(*(TransientError(str(n)) for n in range(9)))
    with pytest.raises(TransientError, match="3"):
        await Retry(backend.generate, tries=4, sleep=Sleeps())(REQUEST)
    assert len(backend.requests) == 4


async def test_no_try_begins_after_the_total_time() -> None:
    backend = failing(*(TransientError(str(n)) for n in range(9)))
    with pytest.raises(TransientError):
        await Retry(backend.generate, tries=9, total_s=0, sleep=Sleeps())(REQUEST)
    assert len(backend.requests) == 1


async def test_a_wait_is_at_least_what_the_provider_asks_for() -> None:
    backend, sleeps = (
        failing(TransientError("slow down", kind="rate_limited", retry_after=20.0)),
        Sleeps(),
    )
    await Retry(backend.generate, tries=6, sleep=sleeps)(REQUEST)
    assert 20.0 <= sleeps[0] <= 21.0


async def test_waits_are_jittered_and_grow() -> None:
    firsts, lasts = [], []
    for _ in range(50):
        backend, sleeps = failing(*[TransientError("x")] * 5), Sleeps()
        await Retry(backend.generate, tries=6, sleep=sleeps)(REQUEST)
        firsts.append(sleeps[0])
        lasts.append(sleeps[-1])
    assert max(firsts) <= 0.5
    assert len(set(firsts)) > 40
    assert sum(lasts) > 4 * sum(firsts)
