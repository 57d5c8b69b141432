from __future__ import annotations

import asyncio

import pytest

from harness.calls.prompt_cache import (
    LIFETIME_S,
    MIN_SHARED_CHARS,
    PromptCaching,
    SharedPrefixes,
    shared_cut,
)
from harness.errors import TransientError
from harness.records import Decoding, Message, Origin, PromptCut, Reply, Request, Usage

RUBRIC = "Score the answer by these rules.\n" * 120
LONG = len(RUBRIC)


def prompt(*texts: str) -> tuple[Message, ...]:
    roles = ("user", "assistant")
    return tuple(Message(roles[n % 2], text) for n, text in enumerate(texts))  # type: ignore[arg-type]


def request(*texts: str) -> Request:
    return Request("m", prompt(*texts), Decoding(), 0, Origin("a", 0, 1))


class Provider:
    """Answers a call once it is let go, and notes what was cut where when it was sent."""

    def __init__(self, beginnings: SharedPrefixes) -> None:
        self.beginnings = beginnings
        self.sent: list[tuple[str, PromptCut | None]] = []
        self.held: list[asyncio.Future[Reply]] = []

    async def __call__(self, request: Request) -> Reply:
        self.sent.append((request.messages[0].content[LONG:], self.beginnings(request.messages)))
        self.held.append(asyncio.get_running_loop().create_future())
        return await self.held[-1]

    def answer(self, error: Exception | None = None) -> None:
        for one in self.held:
            if not one.done() and error:
                one.set_exception(error)
            elif not one.done():
                one.set_result(Reply("ok", "stop", Usage(10, 1, 5, 0, 2)))


@pytest.mark.parametrize(
    ("first", "second", "cut"),
    [
        # back to the end of a line, or else of a word
        ([RUBRIC + "A text"], [RUBRIC + "A test"], (0, LONG)),
        (["word " * 1000 + "cat"], ["word " * 1000 + "car"], (0, 5000)),
        # a whole message, and the beginning of the next
        ([RUBRIC, "Yes.", "Q1"], [RUBRIC, "Yes.", "P1"], (2, 0)),
        ([RUBRIC, "Yes.", "Next:\nQ1"], [RUBRIC, "Yes.", "Next:\nP1"], (2, 6)),
        # the same prompt again: all but its last line
        ([RUBRIC + "A text"], [RUBRIC + "A text"], (0, LONG)),
        # too little
        ([RUBRIC[: MIN_SHARED_CHARS - 200] + "A"], [RUBRIC[: MIN_SHARED_CHARS - 200] + "B"], None),
        (["A" + RUBRIC], ["B" + RUBRIC], None),
    ],
)
def test_where_two_prompts_part(
    first: list[str], second: list[str], cut: tuple[int, int] | None
) -> None:
    assert shared_cut(prompt(*first), prompt(*second)) == cut


async def test_one_call_writes_what_the_others_read() -> None:
    beginnings = SharedPrefixes()
    provider = Provider(beginnings)
    calls = PromptCaching(provider, beginnings, lambda usage: usage.cached_input_tokens / 100)
    asked = [asyncio.create_task(calls(request(f"{RUBRIC}{name}"))) for name in "abcd"]
    await asyncio.sleep(0.05)
    assert [cut for _, cut in provider.sent] == [(0, LONG)]
    provider.answer()
    await asyncio.sleep(0.05)
    assert sorted(provider.sent) == [(name, (0, LONG)) for name in "abcd"]
    provider.answer()
    assert {reply.text for reply in await asyncio.gather(*asked)} == {"ok"}
    assert beginnings.usage == Usage(40, 4, 20, 0, 8)
    assert beginnings.saved_usd == pytest.approx(0.2)


async def test_a_failed_writer_is_followed_by_another() -> None:
    beginnings = SharedPrefixes()
    provider = Provider(beginnings)
    calls = PromptCaching(provider, beginnings)
    asked = [asyncio.create_task(calls(request(f"{RUBRIC}{name}"))) for name in "abc"]
    await asyncio.sleep(0.05)
    provider.answer(TransientError("busy"))
    await asyncio.sleep(0.05)
    assert len(provider.sent) == 2
    provider.answer()
    await asyncio.sleep(0.05)
    provider.answer()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, TransientError) for one in found) == 1
    assert len(provider.sent) == 3


async def test_what_the_provider_has_forgotten_is_written_again() -> None:
    now = 0.0
    beginnings = SharedPrefixes()
    provider = Provider(beginnings)
    calls = PromptCaching(provider, beginnings, clock=lambda: now)
    asked = [asyncio.create_task(calls(request(f"{RUBRIC}{name}"))) for name in "ab"]
    for _ in range(2):
        await asyncio.sleep(0.05)
        provider.answer()
    await asyncio.gather(*asked)
    now = LIFETIME_S + 1
    asked = [asyncio.create_task(calls(request(f"{RUBRIC}{name}"))) for name in "cd"]
    await asyncio.sleep(0.05)
    assert len(provider.sent) == 3, "one of the two writes first"
    for _ in range(2):
        provider.answer()
        await asyncio.sleep(0.05)
    await asyncio.gather(*asked)


async def test_a_prompt_that_shares_nothing_waits_only_at_first() -> None:
    beginnings = SharedPrefixes()
    provider = Provider(beginnings)
    calls = PromptCaching(provider, beginnings, sibling_wait_s=0.01)
    for number in range(5):
        task = asyncio.create_task(calls(request(f"{number} {RUBRIC}")))
        if beginnings.vain_waits < 3:
            await asyncio.sleep(0.05)
        else:
            await asyncio.sleep(0)  # sent at once
            await asyncio.sleep(0)
        provider.answer()
        await task
    short = asyncio.create_task(calls(request("A short one.")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    provider.answer()
    await short
    assert {cut for _, cut in provider.sent} == {None}


async def test_a_later_round_does_not_write_its_own_conversation() -> None:
    beginnings = SharedPrefixes()
    provider = Provider(beginnings)
    calls = PromptCaching(provider, beginnings, sibling_wait_s=0.01)
    for texts in ([RUBRIC], [RUBRIC, "No.", "Again."]):
        task = asyncio.create_task(calls(request(*texts)))
        await asyncio.sleep(0.05)
        provider.answer()
        await task
    assert [cut for _, cut in provider.sent] == [None, None]


def test_a_beginning_only_becomes_shorter() -> None:
    beginnings = SharedPrefixes()
    for ending in ("x\ny\na", "x\ny\nb", "x\nc", "x\nd"):
        beginnings.add(prompt(RUBRIC + ending))
    assert beginnings(prompt(RUBRIC + "anything")) == (0, LONG + 2)
    beginnings.add(prompt(RUBRIC[:1000] + "another"))
    assert beginnings(prompt(RUBRIC)) == (0, LONG + 2), "too short a prompt changes nothing"
    beginnings.add(prompt(RUBRIC[:1100] + "\n" + "other rules " * 300))
    assert beginnings(prompt(RUBRIC)) is None
