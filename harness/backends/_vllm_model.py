"""A model that vLLM is to load: its weights, its adapter, and the arguments that it is run with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.backends._model_files import Hashes, files_identity, local, model_identity
from harness.backends._vllm_arguments import READ, answering, checked
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
    hashes: of the files that it is loaded from.

    Raises: ConfigError for an argument that can be none.
    """

    name: str
    path: str = ""
    lora: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    protocol: Protocol = "chat"
    hashes: Hashes = field(default_factory=Hashes, repr=False, compare=False)

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
        """What answers depend on: the content of files, and the arguments that change answers.

        Raises: DataMissing or DataInvalid for what cannot be read.
        """
        adapter = {"adapter": model_identity(self.lora, self.hashes)} if self.lora else {}
        deciding = {
            name: self._content(name, value) for name, value in answering(self.engine).items()
        }
        return {
            "weights": model_identity(self.path or self.name, self.hashes),
            **adapter,
            "engine": msgspec.json.encode(deciding, order="deterministic").decode(),
        }

    def _content(self, name: str, value: Any) -> Any:
        """Of an argument that names a file or folder what that holds, else the value."""
        if name in READ and isinstance(value, str) and _exists(value):
            return files_identity(Path(value), self.hashes)
        return value

    def endpoint(self) -> str:
        """What stands for a URL in the cache's key: it follows from what decides the answers.

        Raises: DataMissing or DataInvalid for a folder that cannot be read.
        """
        parts = (self.fingerprint(), self.protocol)
        content = msgspec.json.encode(parts, order="deterministic")
        return f"vllm:{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def _place(name: str) -> str:
    folder = local(name)
    return name if folder is None else str(folder)


def _exists(name: str) -> bool:
    """Whether a text names a file or folder; a template's own text is too long for one."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False
