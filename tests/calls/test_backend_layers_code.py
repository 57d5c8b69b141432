from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.calls.backend_layers import MIN_FAILED_CALLS, BackendCalls
from harness.errors import CallError, FatalCallError, TransientError
from harness.records import Decoding, Message, Origin, Request
from tests.conftest import Scripted


def request(number: int) -> Request:
    asked = (Message("user", f"What is {number} + {number}?"),)
    return Request("m", asked, Decoding(), 0, Origin(f"sum/{number}", 0, 1))


def failing(asked: Request) -> Exception:
    return KeyError("price")


async def all_of(ask: BackendCalls, calls: int) -> list[Any]:
    asked = (ask(request(number)) for number in range(calls))
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_an_exception_fails_one_call_and_names_its_line() -> None:
    backend = Scripted()
    ask = BackendCalls(backend)
    assert (await ask(request(1))).text == "2"
    backend.answer = failing
    for number in range(3 * MIN_FAILED_CALLS):
        with pytest.raises(CallError, match=r"raised KeyError: 'price' \(conftest.py, line") as one:
            await ask(request(number))
        assert not isinstance(one.value, FatalCallError | TransientError)
        assert one.value.billed


async def test_a_secret_in_an_exception_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "s3cret-s3cret")
    told = "no\n access with s3cret-s3cret at postgres://me:s3cret@shop"
    ask = BackendCalls(Scripted(lambda request: ValueError(told)))
    with pytest.raises(
        CallError, match=r"no access with \$TEAM_KEY at postgres://…@shop "
    ) as raised:
        await ask(request(1))
    assert "s3cret" not in str(raised.value)


async def test_the_run_ends_if_the_first_calls_fail() -> None:
    found = await all_of(BackendCalls(Scripted(failing)), MIN_FAILED_CALLS + 1)
    assert [type(one) for one in found[: MIN_FAILED_CALLS - 1]] == [CallError] * (
        MIN_FAILED_CALLS - 1
    )
    assert isinstance(found[-1], FatalCallError)


async def test_a_later_session_does_not_end_if_the_first_calls_fail() -> None:
    found = await all_of(BackendCalls(Scripted(failing), may_end_run=False), 3 * MIN_FAILED_CALLS)
    assert {type(one) for one in found} == {CallError}


async def test_the_run_does_not_end_while_a_call_that_began_earlier_may_be_answered() -> None:
    backend = Scripted(delay=0.05)
    ask = BackendCalls(backend)
    slow = asyncio.create_task(ask(request(1)))
    await asyncio.sleep(0)
    backend.delay, backend.answer = 0, failing
    found = await all_of(ask, 3 * MIN_FAILED_CALLS)
    assert {type(one) for one in found} == {CallError}
    backend.answer = Scripted().answer
    assert (await slow).text == "2"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [("async def generate(self, request): return 'Paris'", "returned 'Paris', not a .*Reply"),
     ("def generate(self, request): return 'Paris'", "must be async, but it returned 'Paris'")],
)  # fmt: skip
async def test_a_value_that_is_no_reply_is_named(answer: str, problem: str) -> None:
    scope: dict[str, Any] = {}
    exec(answer, scope)
    backend: Any = type("Own", (Scripted,), {"generate": scope["generate"]})()
    with pytest.raises(CallError, match=problem):
        await BackendCalls(backend)(request(1))
