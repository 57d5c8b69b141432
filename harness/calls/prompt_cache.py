"""The layer that lets calls share a provider's prompt cache.

Providers cache the prefix of a prompt for some minutes, and charge at most half of its price, often
a tenth, for reading it again. This layer finds the prefixes that prompts share (`SharedPrefixes`),
and sends one call, which writes a prefix to the cache, ahead of the others.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.calls.signals import Ask
from harness.records import Message, PromptCut, Reply, Request, Usage

HEAD_CHARS = 1_000  # prompts that are equal in so many characters may share a prefix
MIN_SHARED_CHARS = 3_000  # of a prefix: providers cache none of fewer than 1,024 tokens
LIFETIME_S = 280.0  # Anthropic caches a prefix for 5 minutes after its last use
SIBLING_WAIT_S = 0.2  # how long the first call waits for a second one, to learn what they share
MAX_VAIN_WAITS = 3  # after this many prompts in a row that waited in vain, no prompt waits
MAX_PREFIXES = 256  # remembered prefixes


@dataclass(eq=False, slots=True)
class Prefix:
    """The common prefix of similar prompts: where it ends, and whether it is cached."""

    messages: Sequence[Message]  # of the first prompt
    cut: PromptCut | None = None  # where it ends; None if unknown, or if too little is shared
    cached_cut: PromptCut | None = None  # the end of what the provider has cached
    last_used_at: float = 0.0  # seconds on the layer's clock
    writer: asyncio.Future[None] | None = None  # completes when the call that writes it ends
    sibling: asyncio.Event = field(default_factory=asyncio.Event)  # set by the second prompt


class SharedPrefixes:
    """The prefixes that a model's prompts share."""

    def __init__(self) -> None:
        self._by_head: OrderedDict[str, Prefix] = OrderedDict()
        self.vain_waits = 0  # how many prompts in a row have waited for a second one in vain
        self.usage = Usage()  # of this session's calls
        self.saved_usd = 0.0  # in this session, compared with the cost without a prompt cache

    def __call__(self, messages: Sequence[Message]) -> PromptCut | None:
        """Return where the shared prefix of a prompt ends, or None if no shared prefix is known."""
        prefix = self._by_head.get(_head(messages))
        return prefix.cut if prefix else None

    def add(self, messages: Sequence[Message]) -> Prefix | None:
        """Add a prompt, and return its prefix, or None if the prompt is too short."""
        head = _head(messages)
        if sum(len(message.content) for message in messages) < MIN_SHARED_CHARS:
            return None
        prefix = self._by_head.get(head)
        if prefix is None:
            prefix = Prefix(messages)
            self._by_head[head] = prefix
            if len(self._by_head) > MAX_PREFIXES:
                self._by_head.popitem(last=False)
            return prefix
        self._by_head.move_to_end(head)
        if _is_continuation(prefix.messages, messages):  # later rounds share nothing with others
            return prefix
        cut = shared_cut(prefix.messages, messages)
        is_shorter = prefix.cut is not None and (cut is None or cut < prefix.cut)
        if is_shorter or not prefix.sibling.is_set():
            prefix.cut = cut
        prefix.sibling.set()
        return prefix


def shared_cut(first: Sequence[Message], second: Sequence[Message]) -> PromptCut | None:
    """Return where the common prefix of two prompts ends, or None if the prefix is too short.

    The prefix ends at the end of a line, or at least of a word, so that the split does not change
    how the text is divided into tokens.
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
        shared = _common_prefix(first[index].content, second[index].content)
    else:
        shared = ""
    end = shared.rfind("\n" if "\n" in shared else " ") + 1
    return PromptCut(index, end) if size + end >= MIN_SHARED_CHARS else None


def _is_continuation(first: Sequence[Message], second: Sequence[Message]) -> bool:
    """Return whether one of two conversations continues the other."""
    shorter = min(len(first), len(second))
    return len(first) != len(second) and first[:shorter] == second[:shorter]


def _common_prefix(first: str, second: str) -> str:
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
    """The layer that sends one call ahead to write a shared prefix to the prompt cache.

    Args:
        ask: The layers below.
        prefixes: The prefixes of the model's prompts.
        savings_of: Returns how much the prompt cache saved on a call, in US dollars (negative if
            the call cost more).
        clock: Returns the time in seconds.
        sibling_wait_s: How many seconds the first call waits for a second one with its prefix.
    """

    def __init__(
        self,
        ask: Ask,
        prefixes: SharedPrefixes,
        savings_of: Callable[[Usage], float] = lambda usage: 0.0,
        clock: Callable[[], float] = time.monotonic,
        sibling_wait_s: float = SIBLING_WAIT_S,
    ) -> None:
        self._ask_below = ask
        self._prefixes = prefixes
        self._savings_of = savings_of
        self._clock = clock
        self._sibling_s = sibling_wait_s

    async def __call__(self, request: Request) -> Reply:
        """Send the request, after another call has written its prefix, and return the reply."""
        prefix = self._prefixes.add(request.messages)
        if prefix is None:
            return await self._ask(request)
        if not prefix.sibling.is_set() and self._prefixes.vain_waits < MAX_VAIN_WAITS:
            await self._wait_for_sibling(prefix)
        while prefix.cut is not None:
            is_cached = self._clock() - prefix.last_used_at < LIFETIME_S
            if is_cached and prefix.cached_cut == prefix.cut:
                prefix.last_used_at = self._clock()
                break
            if prefix.writer is None:
                return await self._write(request, prefix)
            await asyncio.shield(prefix.writer)
        return await self._ask(request)

    async def _ask(self, request: Request) -> Reply:
        reply = await self._ask_below(request)
        if reply.usage is not None:
            self._prefixes.usage += reply.usage
            self._prefixes.saved_usd += self._savings_of(reply.usage)
        return reply

    async def _wait_for_sibling(self, prefix: Prefix) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._sibling_s):
                await prefix.sibling.wait()
        alone = not prefix.sibling.is_set()
        self._prefixes.vain_waits = self._prefixes.vain_waits + 1 if alone else 0

    async def _write(self, request: Request, prefix: Prefix) -> Reply:
        cut = prefix.cut
        writer = prefix.writer = asyncio.get_running_loop().create_future()
        try:
            reply = await self._ask(request)
            prefix.cached_cut = cut
            prefix.last_used_at = self._clock()
            return reply
        finally:
            prefix.writer = None
            writer.set_result(None)
