"""Servers of one model, played by objects that answer, hang and die when a test wants it."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends._replicas import Replicas
from harness.backends._seating import Seating, Seats
from harness.errors import (
    ConnectionFailed,
    ConnectionLost,
    FatalCallError,
    ModelNotFound,
    RequestRejected,
    TimedOut,
)
from harness.records import Decoding, Message, Origin, Reply, Request


def asked(prompt: str, sample: int = 0) -> Request:
    origin = Origin(prompt, sample, 1)
    return Request("m", (Message("user", prompt),), Decoding(), sample, origin, seed=sample)


class Actor:
    """A server: what it does is set from outside.

    let: the calls that it has are answered when this is set.
    comes: it is up when this is set.
    """

    def __init__(self, *, owned: bool = True) -> None:
        self.owned = owned
        self.let, self.comes = asyncio.Event(), asyncio.Event()
        self.let.set()
        self.comes.set()
        self.alive = True
        self.in_flight: list[str] = []
        self.most = 0
        self.asked: list[str] = []
        self.deaths: list[list[str]] = []
        self.wrong: FatalCallError | None = None
        self._died = asyncio.Event()

    async def ask(self, request: Request) -> Reply:
        if not self.alive:
            raise ConnectionFailed("refused")
        prompt = request.messages[0].content
        self.asked.append(prompt)
        self.in_flight.append(prompt)
        self.most = max(self.most, len(self.in_flight))
        try:
            if prompt == "hang":
                raise TimedOut("no answer")
            await asyncio.sleep(0)  # the others begin too
            if prompt == "poison":
                self.die()
            died = asyncio.create_task(self._died.wait())
            let = asyncio.create_task(self.let.wait())
            try:
                await asyncio.wait({died, let}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                died.cancel()
                let.cancel()
            if not self.alive:
                raise ConnectionLost("it died")
            return Reply(prompt, "stop")
        finally:
            self.in_flight.remove(prompt)

    def die(self) -> None:
        self.alive = False
        self.deaths.append(list(self.in_flight))
        self._died.set()

    async def well(self) -> bool:
        if self.wrong:
            raise self.wrong
        return self.alive

    async def revive(self) -> None:
        await self.comes.wait()
        self.alive, self._died = True, asyncio.Event()

    async def close(self) -> None:
        pass


async def patient(replicas: Replicas, request: Request) -> str:
    while True:
        if not replicas.ready:
            await replicas.start()
        try:
            return (await replicas.ask(request)).text
        except (ConnectionFailed, TimedOut):
            await asyncio.sleep(0)


async def settled() -> None:
    """All that can go on without anything from outside has gone on."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_server_that_comes_up_later_gets_its_share() -> None:
    first, second = Actor(), Actor()
    first.let.clear()
    second.comes.clear()
    replicas = Replicas([first, second], seats=4)
    await replicas.start()
    calls = [asyncio.create_task(patient(replicas, asked(f"{n}"))) for n in range(12)]
    await settled()
    assert (len(first.in_flight), len(second.asked)) == (4, 0)
    second.comes.set()
    await asyncio.gather(*calls[4:])
    assert len(second.asked) == 8, "what waited has gone to the one that is free"
    first.let.set()
    await asyncio.gather(*calls)
    assert (first.most, second.most) == (4, 4)
    await replicas.close()


async def test_what_waits_is_asked_of_the_others_when_a_server_falls_out() -> None:
    first, second = Actor(), Actor()
    first.let.clear()
    replicas = Replicas([first, second], seats=2)
    await replicas.start()
    await settled()
    calls = [asyncio.create_task(patient(replicas, asked(f"{n}"))) for n in range(9)]
    await settled()
    first.comes.clear()
    first.die()
    assert sorted(await asyncio.gather(*calls)) == [f"{n}" for n in range(9)]
    await replicas.close()


async def test_where_no_server_is_left_nobody_waits_for_a_seat() -> None:
    only = Actor()
    only.let.clear()
    replicas = Replicas([only], seats=1)
    await replicas.start()
    calls = [asyncio.create_task(replicas.ask(asked(f"{n}"))) for n in range(3)]
    await settled()
    only.comes.clear()
    only.die()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, ConnectionFailed) for end in ends)
    assert only.asked == ["0"]
    await replicas.close()


async def test_one_that_hangs_is_left_out_and_comes_back() -> None:
    hangs, answers = Actor(owned=False), Actor(owned=False)
    replicas = Replicas([hangs, answers], seats=8)
    await replicas.start()
    hangs.alive = True
    hangs.comes.clear()

    async def nothing(_: Request) -> Reply:
        hangs.alive = False  # its health will not be answered either
        raise TimedOut("no answer")

    talks, hangs.ask = hangs.ask, nothing  # type: ignore[method-assign]
    with pytest.raises(TimedOut):
        await replicas.ask(asked("0"))
    await settled()
    for number in range(6):
        await replicas.ask(asked(f"{number}"))
    assert len(answers.asked) == 6
    hangs.ask = talks  # type: ignore[method-assign]
    hangs.comes.set()
    await settled()
    for number in range(6):
        await replicas.ask(asked(f"{number}"))
    assert len(hangs.asked) == 3
    await replicas.close()


async def test_a_call_that_is_cancelled_has_its_server_looked_at() -> None:
    hangs, answers = Actor(), Actor()
    replicas = Replicas([hangs, answers], seats=8)
    await replicas.start()
    await settled()
    hangs.let.clear()
    call = asyncio.create_task(replicas.ask(asked("0")))
    await settled()
    assert hangs.in_flight
    hangs.comes.clear()
    hangs.alive = False
    call.cancel()  # as the time limit of a call does
    with pytest.raises(asyncio.CancelledError):
        await call
    await settled()
    for number in range(4):
        await replicas.ask(asked(f"{number}"))
    assert len(answers.asked) == 4
    await replicas.close()


async def test_a_slow_answer_of_a_well_server_changes_nothing() -> None:
    server = Actor()
    replicas = Replicas([server], seats=8)
    await replicas.start()
    with pytest.raises(TimedOut):
        await replicas.ask(asked("hang"))
    assert replicas.ready
    assert (await replicas.ask(asked("0"))).text == "0"
    assert not server.deaths
    await replicas.close()


@pytest.mark.parametrize("servers", [1, 3])
async def test_a_prompt_that_kills_is_found_and_given_up_and_no_other_one(servers: int) -> None:
    actors = [Actor() for _ in range(servers)]
    replicas = Replicas(actors, seats=8)
    prompts = [f"{n}" for n in range(30)]
    prompts.insert(5, "poison")
    requests = [asked(prompt, sample) for sample in range(2) for prompt in prompts]
    ends = await asyncio.gather(
        *(patient(replicas, request) for request in requests), return_exceptions=True
    )
    refused = [end for end in ends if isinstance(end, BaseException)]
    assert [type(end) for end in refused] == [RequestRejected] * 2
    assert "of this prompt" in str(refused[0])
    assert sorted(end for end in ends if isinstance(end, str)) == sorted([*prompts, *prompts])[:-2]
    deaths = [death for actor in actors for death in actor.deaths]
    assert 3 <= len(deaths) <= 6, "each sample: two among others, and one alone"
    assert ["poison"] in deaths
    await replicas.close()


async def test_deaths_that_are_nobodys_fault_blame_nobody() -> None:
    server = Actor()
    server.let.clear()
    replicas = Replicas([server], seats=8)
    calls = [asyncio.create_task(patient(replicas, asked(f"{n}"))) for n in range(8)]
    for _ in range(2):
        await settled()
        assert len(server.in_flight) == 8
        server.die()
        await settled()
    server.let.set()
    assert sorted(await asyncio.gather(*calls)) == [f"{n}" for n in range(8)]
    assert len(server.deaths) == 2
    await replicas.close()


async def test_a_server_of_others_that_is_the_wrong_one_is_told_at_the_start() -> None:
    right, wrong = Actor(owned=False), Actor(owned=False)
    wrong.wrong = ModelNotFound("it serves 'other'")
    replicas = Replicas([right, wrong], seats=8)
    with pytest.raises(ModelNotFound, match="other"):
        await replicas.start()
    assert not right.asked
    await replicas.close()


@given(st.lists(st.sampled_from(["take", "take alone", "leave", "cancel", "shut", "open"])))
def test_seats_are_never_exceeded_and_none_is_lost(steps: list[str]) -> None:
    async def play() -> None:
        servers = [Seats(2), Seats(3)]
        seating = Seating(servers)
        calls: deque[asyncio.Task[Seats]] = deque()
        for step in steps:
            if step.startswith("take"):
                calls.append(asyncio.create_task(seating.take(alone=step == "take alone")))
            elif step == "leave" and calls and calls[0].done():
                seating.leave(calls.popleft().result())
            elif step == "cancel" and calls and not calls[-1].done():
                calls.pop().cancel()
            elif step == "shut":
                servers[0].open = False
            elif step == "open":
                servers[0].open = True
                seating.serve()
            await asyncio.sleep(0)
            assert all(server.load <= server.most for server in servers)
            assert all(server.load == 1 for server in servers if server.alone)
        servers[0].open = True
        seating.serve()
        for _ in range(3 * len(steps)):
            seated = [call for call in calls if call.done()]
            for call in seated:
                calls.remove(call)
                seating.leave(call.result())
            await asyncio.sleep(0)
        assert not calls
        assert [server.load for server in servers] == [0, 0]

    asyncio.run(play())
