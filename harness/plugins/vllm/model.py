"""Code that the vLLM backends share: the model to load, and checks of the engine's arguments.

Only arguments that may change answers are part of the cache key. A local model is identified by its
files, so that replies from different weights are not confused: a fine-tuned checkpoint often keeps
its folder name, size and date, and an edited checkpoint may differ in only a few places. Every file
is therefore hashed completely. Gigabytes take seconds to minutes, so hashes of large files are
cached until the file system reports a change.
"""

import contextlib
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
from typing_extensions import override

from harness.backends import DeadlyPrompts, EngineGate, OwnedServers
from harness.backends.openai import check_constraint_names
from harness.errors import ConfigError, DataInvalid, DataMissing, FatalCallError
from harness.plugin import Backend
from harness.plugins.vllm.processes import errors_in
from harness.ports import (
    CONSTRAINTS,
    DECODING_PARAMETERS,
    LOGLIKELIHOODS,
    LOGPROBS,
    OWN_DRAWS,
    PROMPT_LOGPROBS,
)
from harness.records import Decoding

LARGE_BYTES = 4_000_000  # file size above which hashes are cached
READERS = 8  # maximum number of files read concurrently

Known = dict[str, tuple[list[int], str]]  # for each path, the file's status (`_stat`) and hash


class Hashes:
    """The hashes of files, cached for large files in the file ``memory``, if any."""

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory

    def of(self, paths: Sequence[Path]) -> list[str]:
        """Return the SHA-256 hashes (hex digits) of files, in the order of ``paths``.

        Raises:
            OSError: If a file cannot be read.
        """
        cached = self._cached()
        stats = {str(path): _stat(path) for path in paths}
        hashes = {path: entry for path, entry in cached.items() if entry[0] == stats.get(path)}
        missing = [path for path in stats if path not in hashes]
        with ThreadPoolExecutor(READERS) as readers:
            for path, digest in zip(missing, readers.map(_sha256, missing), strict=True):
                # A file that changes while it is hashed will not match its entry next time.
                hashes[path] = stats[path], digest
        large = {path: hashes[path] for path in missing if stats[path][2] > LARGE_BYTES}
        if large and self._memory:
            self._save(self._memory, {**cached, **large})
        return [hashes[str(path)][1] for path in paths]

    def _cached(self) -> Known:
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            if self._memory:
                return msgspec.json.decode(self._memory.read_bytes(), type=Known)
        return {}

    def _save(self, memory: Path, hashes: Known) -> None:
        # A cache that cannot be written is no error.
        with contextlib.suppress(OSError, UnicodeEncodeError):
            memory.parent.mkdir(parents=True, exist_ok=True)
            temporary = memory.with_name(f".{memory.name}.{os.getpid()}")
            temporary.write_bytes(msgspec.json.encode(hashes))
            temporary.replace(memory)


def cached_hashes(cache_dir: Path) -> Hashes:
    """Return the hashes that a file in the folder of caches keeps."""
    return Hashes(cache_dir / "model_files.json")


def model_identity(name: str, hashes: Hashes) -> str:
    """Return the identity of a model: a hash of its files, or its name on the hub."""
    folder = place(name)
    return files_identity(folder, hashes) if isinstance(folder, Path) else folder


def files_identity(place: Path, hashes: Hashes) -> str:
    """Return a hash of a file, or of the files directly in a folder and their names.

    Raises:
        DataInvalid: If a file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        within = place.iterdir() if place.is_dir() else [place]
        files = sorted(path for path in within if path.is_file())
        for path, digest_of_file in zip(files, hashes.of(files), strict=True):
            name = os.fsencode(path.name) if place.is_dir() else b""
            digest.update(name + b"\0" + digest_of_file.encode())
    except OSError as error:
        problem = f"Cannot read the model from {place}: {error.strerror}."
        raise DataInvalid(problem, "Fix its permissions.") from None
    return f"files:{digest.hexdigest()}"


def place(name: str) -> Path | str:
    """Return the folder of a local model, or the name itself for a model on the hub.

    Raises:
        DataMissing: If the name is a path, but there is no such folder.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if name.startswith(("/", "./", "../", "~")):
        remedy = "Check model.path (or model.name) in the run file."
        raise DataMissing(f"There is no model folder {name}.", remedy)
    return name


def _stat(path: Path) -> list[int]:
    """Return a file's device, inode, size, mtime and ctime (ns). Programs cannot set the ctime."""
    stat = path.stat()
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _sha256(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    arguments: dict[str, Any] = {}
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
            arguments[name] = value
    for name in _ARGUMENTS.parallel:
        size = arguments.get(name, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ConfigError(f"model.engine: {name} must be 1 or more.")
    return arguments


def flags(engine: Mapping[str, Any]) -> list[str]:
    """Return engine arguments as options of the command line of vLLM's server."""
    words: list[str] = []
    for name, value in engine.items():
        if value is None or (value is False and name in _ARGUMENTS.bare):
            continue
        words.append(("--no-" if value is False else "--") + name.replace("_", "-"))
        if not isinstance(value, bool):
            values = value if isinstance(value, list | tuple) else [value]
            words += [json.dumps(item) if isinstance(item, dict) else str(item) for item in values]
    return words


def depth(engine: Mapping[str, Any]) -> int:
    """Return how many calls to keep in flight: 125% of the replicas' batch sizes."""
    seats = engine.get("max_num_seqs", 256)
    ranks = engine.get("data_parallel_size", 1)
    return math.ceil(1.25 * seats * ranks) if isinstance(seats, int) else 320


Protocol = Literal["chat", "completions"]  # turns for the model's chat template, or one text


def features(protocol: Protocol) -> frozenset[str]:
    """Return the features of a backend that runs a model with a protocol."""
    parameters = DECODING_PARAMETERS | CONSTRAINTS | {LOGPROBS, PROMPT_LOGPROBS, OWN_DRAWS, "free"}
    return parameters | {"conversation" if protocol == "chat" else LOGLIKELIHOODS}


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


class VLLMBackend(Backend):
    """Base class of the backends: a model of ours, which is started again if it dies.

    Args:
        name: The model's name.
        log: The file with the output of vLLM.
        restarts: Maximum number of consecutive restarts without an answer.
        servers: Shares the started models with other runs.
    """

    cacheable = True
    runner: ClassVar[str]  # what runs the model, for messages

    def __init__(self, name: str, log: Path, restarts: int, servers: OwnedServers) -> None:
        self._name = name
        self._log = log
        self._restarts = restarts
        self._servers = servers
        self._prompts = DeadlyPrompts()
        self._turns = EngineGate(self._prompts)
        self._starts = 0  # since the last answer, including the start that gave it

    @override
    def check_decoding(self, name: str, decoding: Decoding) -> None:
        super().check_decoding(name, decoding)
        check_constraint_names(decoding)

    def _count_start(self, log: str) -> None:
        """Count a start. Raise FatalCallError, with the errors in ``log``, after too many."""
        if self._starts > self._restarts:
            raise self._failed("died repeatedly without answering", log)
        self._starts += 1

    def _failed(self, how: str, log: str) -> FatalCallError:
        problem = f"The vLLM {self.runner} of {self._name!r} {how}. Its errors:\n{errors_in(log)}\n"
        remedy = (
            f"Check model.path, model.lora and model.engine. Its whole output is in {self._log}."
        )
        return FatalCallError(problem, remedy)


def _exists(name: str) -> bool:
    """Return whether a path is valid and exists."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False
