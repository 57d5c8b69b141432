"""Paid calls on a cache, with the claim at the bottom of their call stack."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from harness.calls.calls import CachedCalls, ClaimedCalls
from harness.calls.keys import call_key
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Ask
from harness.records import Reply


def paid_calls(
    ask: Ask,
    replies: ReplyCache,
    *,
    between: Callable[[Ask], Ask] = lambda ask: ask,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    cost: Callable[[Reply], float | None] = lambda reply: None,
    **more: Any,
) -> CachedCalls:
    """A call stack of cache, the layers between, claim and `ask`."""
    claim = ClaimedCalls(ask, replies, partial(call_key, "scripted", ""), sleep)
    return CachedCalls(between(claim), claim, backend="scripted", cost_of=cost, **more)
