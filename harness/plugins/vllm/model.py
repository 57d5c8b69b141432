"""Code that the vLLM backends share: the model to load, and checks of the engine's arguments.

Only arguments that may change answers are part of the cache key.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.errors import ConfigError
from harness.plugins.vllm.model_files import Hashes, files_identity, model_identity, place
from harness.ports import (
    CONSTRAINTS,
    LOGLIKELIHOODS,
    LOGPROBS,
    OWN_DRAWS,
    PARAMETERS,
    PROMPT_LOGPROBS,
)

LOADING = "starting; loading a large model takes minutes"


class _Arguments(msgspec.Struct, frozen=True):
    given: Mapping[str, str]
    parallel: tuple[str, ...]
    speed: frozenset[str]
    read: frozenset[str]
    bare: frozenset[str]


_ARGUMENTS = msgspec.yaml.decode(
    Path(__file__).with_name("arguments.yaml").read_bytes(), type=_Arguments
)


def checked(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Check engine arguments, and return them under vLLM's names, without null values."""
    found: dict[str, Any] = {}
    for key, value in engine.items():
        name = key.removeprefix("--").replace("-", "_")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            problem = f"model.engine: {key!r} is not an engine argument."
            raise ConfigError(problem, "Write vLLM's own names, such as tensor_parallel_size.")
        if name == "hf_token":
            problem = "model.engine: hf_token would be visible in the run's files and to others."
            raise ConfigError(problem, "Remove it, and set the environment variable HF_TOKEN.")
        if (ours := _ARGUMENTS.given.get(name)) is not None:
            remedy = f"Set {ours}." if ours else "Remove it."
            raise ConfigError(f"model.engine: {name} is set by the harness.", remedy)
        if value is not None:
            found[name] = value
    for name in _ARGUMENTS.parallel:
        size = found.get(name, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ConfigError(f"model.engine: {name} must be 1 or more.")
    return found


def flags(engine: Mapping[str, Any]) -> list[str]:
    """Return engine arguments as options of the command line of vLLM's server."""
    words: list[str] = []
    for name, value in engine.items():
        if value is None or (value is False and name in _ARGUMENTS.bare):
            continue
        words.append(("--no-" if value is False else "--") + name.replace("_", "-"))
        if not isinstance(value, bool):
            values = value if isinstance(value, list | tuple) else [value]
            words += [json.dumps(one) if isinstance(one, dict) else str(one) for one in values]
    return words


def depth(engine: Mapping[str, Any]) -> int:
    """Return how many calls to keep in flight: 125% of the replicas' batch sizes."""
    seats, ranks = engine.get("max_num_seqs", 256), engine.get("data_parallel_size", 1)
    return math.ceil(1.25 * seats * ranks) if isinstance(seats, int) else 320


Protocol = Literal["chat", "completions"]  # turns for the model's chat template, or one text


def features(protocol: Protocol) -> frozenset[str]:
    """Return the features of a backend that runs a model with a protocol."""
    taken = PARAMETERS | CONSTRAINTS | {LOGPROBS, PROMPT_LOGPROBS, OWN_DRAWS, "free"}
    return taken | {"conversation" if protocol == "chat" else LOGLIKELIHOODS}


@dataclass(frozen=True, slots=True)
class VLLMModel:
    """A model for vLLM to load, as described by the section ``model`` of a run file."""

    name: str
    path: str = ""
    lora: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    protocol: Protocol = "chat"
    hashes: Hashes = field(default_factory=Hashes, repr=False, compare=False)  # of its files

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine", checked(self.engine))

    @property
    def weights(self) -> str:
        return str(place(self.path or self.name))

    @property
    def adapter(self) -> str:
        """The LoRA adapter's folder or name on the hub ("" without an adapter)."""
        return str(place(self.lora)) if self.lora else ""

    def fingerprint(self) -> dict[str, str]:
        """Return what answers depend on, by name."""
        adapter = {"adapter": model_identity(self.lora, self.hashes)} if self.lora else {}
        deciding = {k: value for k, value in self.engine.items() if k not in _ARGUMENTS.speed}
        for name in deciding.keys() & _ARGUMENTS.read:
            if isinstance(value := deciding[name], str) and _exists(value):
                deciding[name] = files_identity(Path(value), self.hashes)
        return {
            "weights": model_identity(self.path or self.name, self.hashes),
            **adapter,
            "engine": msgspec.json.encode(deciding, order="deterministic").decode(),
        }

    def endpoint(self) -> str:
        """Return the endpoint for cache keys: a hash of the fingerprint and the protocol."""
        parts = (self.fingerprint(), self.protocol)
        content = msgspec.json.encode(parts, order="deterministic")
        return f"vllm:{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def _exists(name: str) -> bool:
    """Return whether a path is valid and exists."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False
