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
        key_part: Text that the backend adds to the key (`Backend.key_part`).
        version: The version of the model that the run file states (``model.version``), if any.
        run_id: Id of the only run that may use the reply. Empty: all runs may.
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
    """Return a function that computes the keys of requests to a backend with `call_key`.

    Args:
        name: The backend's name.
        backend: The backend.
        by_instance: The default value of the function's parameter ``by_instance``.
        version: As for `call_key`.
        run_id: As for `call_key`.
        key_part: Text that is added to the keys if the backend does not override
            `Backend.key_part`.
    """
    key_of = partial(call_key, name, backend.endpoint, version=version, run_id=run_id)
    if not overrides_method(backend, Backend.key_part):
        return partial(key_of, by_instance=by_instance, key_part=key_part)

    def key(request: Request, *, by_instance: bool = by_instance) -> str:
        return key_of(request, by_instance=by_instance, key_part=backend.key_part(request))

    return key


def provider_seed(
    run_seed: int, prompt_hash: str, sample: int, redraw: int = 0, instance_id: str | None = None
) -> int:
    """Return the seed to send with a request.

    Without ``instance_id``, the seed has 31 bits, and instances that share a prompt share the seed
    and therefore the call. With it, each instance has its own seed, of 53 bits: few enough for any
    JSON parser, and enough to make collisions among a million samples unlikely.

    Args:
        run_seed: The run's seed.
        prompt_hash: A hash of the request's messages.
        sample: The index of the sample.
        redraw: The number of earlier answers to the request that were discarded for a new one.
        instance_id: An instance's id, or None to share the seed.
    """
    source = f"{run_seed}/{sample}/{prompt_hash}"
    if redraw:
        source += f"/{redraw}"
    if instance_id is None:
        n_bytes = 4
        excess_bits = 1
    else:
        source += f"/{instance_id}"
        n_bytes = 8
        excess_bits = 11
    digest = hashlib.blake2b(source.encode(), digest_size=n_bytes).digest()
    return int.from_bytes(digest, "big") >> excess_bits
