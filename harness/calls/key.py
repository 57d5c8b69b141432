"""The key of a call: a hash of everything that makes two calls the same."""

from __future__ import annotations

import hashlib

from harness.records import Request, content_hash

KEY_VERSION = 1
"""Incremented when the meaning of a key changes, so that old replies are not misused."""


def call_key(backend: str, endpoint: str, request: Request, *, by_instance: bool = False) -> str:
    """Return a call's key, 32 hex digits. Rounds have different keys because messages differ.

    With ``by_instance`` (the backend looks up answers by instance), the key includes the origin.
    """
    parts = (
        KEY_VERSION,
        backend,
        endpoint,
        request.model,
        request.messages,
        request.decoding.given(),  # a field added later changes no key unless it is set
        request.seed,
        request.sample,
        request.origin if by_instance else None,
    )
    # Added only if set, so that replies cached by earlier versions keep their keys.
    return content_hash((*parts, request.redraw) if request.redraw else parts)


def provider_seed(
    run_seed: int, prompt: str, sample: int, redraw: int = 0, instance: str | None = None
) -> int:
    """Return the seed sent to a provider: 31 bits from run seed, prompt hash, sample and redraw.

    Instances that share a prompt share the seed, and so the call.

    Args:
        prompt: Hash of the messages.
        redraw: How many times the answer was drawn before.
        instance: An instance's id, to give it separate draws. The seed then has 53 bits: few enough
            for any JSON parser, and enough to make collisions among a million samples unlikely.
    """
    name = f"{run_seed}/{sample}/{prompt}" + (f"/{redraw}" if redraw else "")
    size, spare = (4, 1) if instance is None else (8, 11)
    name = name if instance is None else f"{name}/{instance}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=size).digest(), "big") >> spare
