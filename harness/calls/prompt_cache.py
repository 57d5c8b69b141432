"""The layer that lets calls share a provider's prompt cache.

Providers keep the beginning of a prompt for some minutes, and charge at most half of its price,
often a tenth, for reading it again. This layer finds how much of the beginning is shared
(`SharedBeginnings`), and sends one call, which writes the beginning to the cache, ahead of the
others.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.calls.signals import Ask
from harness.records import Message, PromptCut, Reply, Request, Usage

HEAD_CHARS = 1_000  # characters by which prompts that may share a beginning are found
MIN_SHARED_CHARS = 3_000  # characters; providers keep no beginning of fewer than 1,024 tokens
LIFETIME_S = 280.0  # Anthropic keeps a beginning for 5 minutes after its last use
SIBLING_WAIT_S = 0.2  # how long the first call waits for a second one, to learn what they share
MAX_VAIN_WAITS = 3  # after this many prompts that waited in vain, no prompt waits
MAX_PREFIXES = 256  # beginnings that are remembered


@dataclass(eq=False, slots=True)
class Prefix:
    """The beginning of similar prompts: where it ends, and whether it is cached."""

    messages: Sequence[Message]  # of the first prompt that was added
    cut: PromptCut | None = None  # where it ends; None if unknown, or if too little is shared
    cached_cut: PromptCut | None = None  # the cut up to which the provider keeps it
    last_used_at: float = 0.0
    writer: asyncio.Future[None] | None = None
    sibling: asyncio.Event = field(default_factory=asyncio.Event)


class SharedPrefixes:
    """The beginnings that a model's prompts share."""

    def __init__(self) -> None:
        self._by_head: OrderedDict[str, Prefix] = OrderedDict()
        self.vain_waits = 0  # how many prompts in a row have waited for a second one in vain
        self.usage = Usage()  # of the calls of this session
        self.saved_usd = 0.0  # by this session, compared with a price without a prompt cache

    def __call__(self, messages: Sequence[Message]) -> PromptCut | None:
        """Return where the shared beginning of a prompt ends, or None if none is known."""
        beginning = self._by_head.get(_head(messages))
        return beginning.cut if beginning else None

    def add(self, messages: Sequence[Message]) -> Prefix | None:
        """Add a prompt, and return its beginning, or None if the prompt is too short."""
        head = _head(messages)
        if sum(len(message.content) for message in messages) < MIN_SHARED_CHARS:
            return None
        beginning = self._by_head.get(head)
        if beginning is None:
            beginning = self._by_head[head] = Prefix(messages)
            if len(self._by_head) > MAX_PREFIXES:
                self._by_head.popitem(last=False)
            return beginning
        self._by_head.move_to_end(head)
        if _continues(beginning.messages, messages):  # a later round shares nothing with others
            return beginning
        cut = shared_cut(beginning.messages, messages)
        is_shorter = beginning.cut is not None and (cut is None or cut < beginning.cut)
        if is_shorter or not beginning.sibling.is_set():
            beginning.cut = cut
        beginning.sibling.set()
        return beginning


def shared_cut(first: Sequence[Message], second: Sequence[Message]) -> PromptCut | None:
    """Return where the shared beginning of two prompts ends, or None if it is shorter than `LEAST`.

    The beginning ends at the end of a line, or at least of a word, so that the split does not
    change how the text is divided into tokens.
    """
    index = size = 0
    for message, other_message in zip(first, second, strict=False):
        if message != other_message:
            break
        size += len(message.content)
        index += 1
    if index == min(len(first), len(second)):  # equal
        index -= 1
        size -= len(first[index].content)
        shared = first[index].content
    elif first[index].role == second[index].role:
        shared = _common(first[index].content, second[index].content)
    else:
        shared = ""
    end = shared.rfind("\n" if "\n" in shared else " ") + 1
    return PromptCut(index, end) if size + end >= MIN_SHARED_CHARS else None


def _continues(first: Sequence[Message], second: Sequence[Message]) -> bool:
    fewest = min(len(first), len(second))
    return len(first) != len(second) and first[:fewest] == second[:fewest]


def _common(first: str, second: str) -> str:
    low = 0
    high = min(len(first), len(second))
    while low < high:  # by bisection: comparing slices is faster than comparing characters
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return first[:low]


def _head(messages: Sequence[Message]) -> str:
    head = ""
    for message in messages:
        head += f"{message.role}\n{message.content[: HEAD_CHARS - len(head)]}\n"
        if len(head) >= HEAD_CHARS:
            break
    return head


class PromptCaching:
    """The layer that sends one call ahead to write a shared beginning to the prompt cache.

    Args:
        ask: The layers below.
        beginnings: The beginnings of the model's prompts.
        saved: Returns how much less a call costs than without the prompt cache, in US dollars
            (negative if it costs more).
        clock: Returns the time in seconds.
        sibling_s: How many seconds the first call waits for a second one with its beginning.
    """

    def __init__(
        self,
        ask: Ask,
        prefixes: SharedPrefixes,
        savings_of: Callable[[Usage], float] = lambda usage: 0.0,
        clock: Callable[[], float] = time.monotonic,
        sibling_wait_s: float = SIBLING_WAIT_S,
    ) -> None:
        self._below = ask
        self._beginnings = prefixes
        self._saved = savings_of
        self._clock = clock
        self._sibling_s = sibling_wait_s

    async def __call__(self, request: Request) -> Reply:
        """Return the reply. The request waits while another call writes its beginning."""
        beginning = self._beginnings.add(request.messages)
        if beginning is None:
            return await self._ask(request)
        if not beginning.sibling.is_set() and self._beginnings.vain_waits < MAX_VAIN_WAITS:
            await self._wait_for_sibling(beginning)
        while beginning.cut is not None:
            is_cached = self._clock() - beginning.last_used_at < LIFETIME_S
            if is_cached and beginning.cached_cut == beginning.cut:
                beginning.last_used_at = self._clock()
                break
            if beginning.writer is None:
                return await self._write(request, beginning)
            await asyncio.shield(beginning.writer)
        return await self._ask(request)

    async def _ask(self, request: Request) -> Reply:
        reply = await self._below(request)
        if reply.usage is not None:
            self._beginnings.usage += reply.usage
            self._beginnings.saved_usd += self._saved(reply.usage)
        return reply

    async def _wait_for_sibling(self, beginning: Prefix) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._sibling_s):
                await beginning.sibling.wait()
        alone = not beginning.sibling.is_set()
        self._beginnings.vain_waits = self._beginnings.vain_waits + 1 if alone else 0

    async def _write(self, request: Request, beginning: Prefix) -> Reply:
        cut = beginning.cut
        writer = beginning.writer = asyncio.get_running_loop().create_future()
        try:
            reply = await self._ask(request)
            beginning.cached_cut = cut
            beginning.last_used_at = self._clock()
            return reply
        finally:
            beginning.writer = None
            writer.set_result(None)
