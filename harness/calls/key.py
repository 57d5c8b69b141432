"""The content-addressed key of a call: what makes two calls the same."""

from __future__ import annotations

import hashlib

from harness.records import Request, content_hash

KEY_VERSION = 1
"""Incremented when the meaning of a key changes, so that old replies are not mistaken."""


def call_key(backend: str, endpoint: str, request: Request, *, by_instance: bool = False) -> str:
    """Return the key of a call, 32 hex digits.

    A hash of key version, backend, endpoint, model, messages, decoding, provider seed, sample
    index and redraw, and nothing else. The round is in the messages.

    Args:
        by_instance: Whether the backend answers instances instead of prompts (a recording with
            differing answers to one prompt); then the origin is part of the key.
    """
    origin = request.origin if by_instance else None
    parts = (
        KEY_VERSION,
        backend,
        endpoint,
        request.model,
        request.messages,
        request.decoding.given(),  # a field added later changes no key unless it is set
        request.seed,
        request.sample,
        origin,
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
        redraw: How often the answer was drawn before.
        instance: The instance's id if it gets separate draws. The seed then has 53 bits: no two
            of a million samples of one prompt are likely to coincide, and any JSON holds it.
    """
    again = f"/{redraw}" if redraw else ""
    name = f"{run_seed}/{sample}/{prompt}{again}"
    if instance is None:
        digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") >> 1
    digest = hashlib.blake2b(f"{name}/{instance}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 11
