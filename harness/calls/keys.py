"""The keys of calls, and the seeds sent with them."""

import hashlib
from collections.abc import Callable
from functools import partial

from harness.ports import LOGLIKELIHOODS, Backend, overrides_method
from harness.records import Request, content_hash

KEY_VERSION = 1  # part of every key; to be raised when keys change meaning


def call_key(
    backend: str,
    endpoint: str,
    request: Request,
    *,
    by_instance: bool = False,
    key_part: str = "",
    version: str | None = None,
    run_id: str = "",
) -> str:
    """Return a call's key (32 hex digits). Calls with the same key share a reply.

    The key is a hash of everything that a reply depends on.

    Args:
        backend: The backend's name.
        endpoint: The backend's endpoint, such as a URL.
        request: The request.
        by_instance: Whether each attempt has its own reply. The key then includes the request's
            origin.
        part: Text that the backend adds to the key (`Backend.key_part`).
        version: The version of the model that the run file states (``model.version``), if any.
        run: Id of the only run that may use the reply. Empty: all runs may.
    """
    parts: tuple[object, ...] = (
        KEY_VERSION,
        backend,
        endpoint,
        request.model,
        request.messages,
        request.decoding.specified_fields(),  # a field added later changes no key unless it is set
        request.seed,
        request.sample,
        request.origin if by_instance else None,
    )
    # Added only if set, so that replies cached by earlier versions keep their keys.
    if request.loglikelihoods:
        parts = (*parts, LOGLIKELIHOODS, request.window)
    if request.unsent_seed:  # not the default, 0
        parts = (*parts, "seed", request.unsent_seed)
    if version is not None:
        parts = (*parts, "version", version)
    if run_id:
        parts = (*parts, "run", run_id)
    if key_part:
        return content_hash((*parts, request.redraw, key_part))
    return content_hash((*parts, request.redraw) if request.redraw else parts)


def key_function(
    name: str,
    backend: Backend,
    *,
    by_instance: bool = False,
    version: str | None = None,
    run_id: str = "",
    key_part: str = "",
) -> Callable[..., str]:
    """Return a function that computes `call_key` for requests to a backend.

    The function has a parameter ``by_instance``, whose default value is the one given here.
    ``part`` is added to the keys of a backend without a `Backend.key_part` of its own.
    """
    plain_key = partial(call_key, name, backend.endpoint, version=version, run_id=run_id)
    if not overrides_method(backend, Backend.key_part):
        return partial(plain_key, by_instance=by_instance, key_part=key_part)

    def key(request: Request, *, by_instance: bool = by_instance) -> str:
        return plain_key(request, by_instance=by_instance, key_part=backend.key_part(request))

    return key


def provider_seed(
    run_seed: int, prompt_hash: str, sample: int, redraw: int = 0, instance_id: str | None = None
) -> int:
    """Return the seed to send with a request.

    Without ``instance``, it has 31 bits, and instances that share a prompt share the seed and
    therefore the call. With ``instance``, each instance gets its own seed, of 53 bits: few enough
    for any JSON parser, and enough to make collisions among a million samples unlikely.

    Args:
        run_seed: The run's seed.
        prompt: A hash of the request's messages.
        sample: The number of the sample.
        redraw: The number of earlier answers to the request that were discarded for a new one.
        instance: An instance's id, or None to share the seed.
    """
    name = f"{run_seed}/{sample}/{prompt_hash}" + (f"/{redraw}" if redraw else "")
    size, spare = (4, 1) if instance_id is None else (8, 11)
    name = name if instance_id is None else f"{name}/{instance_id}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=size).digest(), "big") >> spare
