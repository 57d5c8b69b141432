"""What makes two calls the same: the content-addressed key of a call."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from harness.records import Message, Request

KEY_VERSION = 1
"""Raised when the meaning of a key changes, so that old replies are not mistaken."""

_canonical = msgspec.json.Encoder(order="deterministic")


def _digest(value: Any) -> str:
    return hashlib.blake2b(_canonical.encode(value), digest_size=16).hexdigest()


def messages_hash(messages: Sequence[Message]) -> str:
    """Hash of a conversation, 32 hex digits: names the prompt in clusters and attempts."""
    return _digest(messages)


def call_key(backend: str, endpoint: str, request: Request, *, by_instance: bool = False) -> str:
    """The key of a call, 32 hex digits.

    Over key version, backend, endpoint, model, messages, decoding, provider
    seed, sample index and redraw, and nothing else. The round is in the messages.

    by_instance: the backend answers instances, not prompts (a recording with
        differing answers to one prompt): the origin then is part of the key.
    """
    origin = request.origin if by_instance else None
    parts = (
        KEY_VERSION,
        backend,
        endpoint,
        request.model,
        request.messages,
        request.decoding.given(),  # a field added later, and not set, changes no key
        request.seed,
        request.sample,
        origin,
    )
    # Added only where it is set: the replies of before keep their keys.
    return _digest((*parts, request.redraw) if request.redraw else parts)


def provider_seed(
    run_seed: int, prompt: str, sample: int, redraw: int = 0, instance: str | None = None
) -> int:
    """The seed sent to a provider: 31 bits from run seed, prompt hash, sample and redraw.

    Instances that share a prompt share it, so that they share the call.

    instance: where they are to have draws of their own; the seed then has 53 bits, so that of a
        million samples of one prompt no two are likely to coincide, and any JSON holds it.
    """
    again = f"/{redraw}" if redraw else ""
    name = f"{run_seed}/{sample}/{prompt}{again}"
    if instance is None:
        digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") >> 1
    digest = hashlib.blake2b(f"{name}/{instance}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 11
