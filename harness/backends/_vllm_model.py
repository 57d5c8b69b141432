"""A model that vLLM is to load: its weights, its adapter, and the arguments that it is run with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from harness.backends._model_files import local, model_identity
from harness.backends._vllm_arguments import answering, checked
from harness.ports import LOGPROBS, OWN_DRAWS, PARAMETERS, PROMPT_LOGPROBS
from harness.records import ConstraintKind

Protocol = Literal["chat", "completions"]
"""Whether a model is asked in turns by its chat template, or to continue one text."""

CONSTRAINED: frozenset[ConstraintKind] = frozenset({"json_schema", "regex", "choices", "grammar"})


def features(protocol: Protocol) -> frozenset[str]:
    """What vLLM takes of a run file's decoding; its calls are free."""
    taken = PARAMETERS | CONSTRAINED | {LOGPROBS, PROMPT_LOGPROBS, OWN_DRAWS, "free"}
    return taken | ({"conversation"} if protocol == "chat" else set())


@dataclass(frozen=True, slots=True)
class VLLMModel:
    """What is loaded.

    name: what requests call it.
    path: a folder, or a name on the hub; empty for `name` itself.
    lora: a folder with an adapter, or its name on the hub; empty for none.
    engine: vLLM's engine arguments.

    Raises: ConfigError for an argument that can be none.
    """

    name: str
    path: str = ""
    lora: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    protocol: Protocol = "chat"

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine", checked(self.engine))

    @property
    def weights(self) -> str:
        """Where vLLM loads the weights from."""
        return _place(self.path or self.name)

    @property
    def adapter(self) -> str:
        """Where vLLM loads the adapter from; empty without one."""
        return _place(self.lora) if self.lora else ""

    def fingerprint(self) -> dict[str, str]:
        """What a run's answers depend on that its run file does not say: the files' content.

        Raises: DataMissing or DataInvalid for a folder that cannot be read.
        """
        adapter = {"adapter": model_identity(self.lora)} if self.lora else {}
        return {"weights": model_identity(self.path or self.name), **adapter}

    def endpoint(self) -> str:
        """What stands for a URL in the cache's key: it follows from what decides the answers.

        Raises: DataMissing or DataInvalid for a folder that cannot be read.
        """
        parts = (self.fingerprint(), answering(self.engine), self.protocol)
        content = msgspec.json.encode(parts, order="deterministic")
        return f"vllm:{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def _place(name: str) -> str:
    folder = local(name)
    return name if folder is None else str(folder)
