"""What a model's files are: so that no reply of other weights is taken for one of theirs.

A fine-tuned checkpoint often keeps its folder's name, its size and its date. To hash all of its
gigabytes would take minutes at every start; so small files (configuration, tokeniser, chat
template) are hashed whole, and of large ones their length and samples throughout. Weights that
differ at all differ nearly everywhere: they were trained.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.errors import DataInvalid, DataMissing

WHOLE_BYTES = 4_000_000
"""A file up to this size is hashed whole."""
SAMPLES, SAMPLE_BYTES = 64, 4096


def model_identity(name: str) -> str:
    """What tells a model from others: of a folder a hash of its files, of a hub's model its name.

    name: a folder, or a name on the hub, such as ``meta-llama/Llama-3.1-8B-Instruct``. It is
        a folder where one is there, or where it is written as only a folder can be.

    Raises: DataMissing for a folder that is not there; DataInvalid for one that cannot be read.
    """
    folder = local(name)
    if folder is None:
        return name
    digest = hashlib.blake2b(digest_size=16)
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        for path in files:
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            _sampled(path, digest)
    except OSError as error:
        raise DataInvalid(
            f"The model's folder {folder} cannot be read: {error.strerror}.",
            "Mend its permissions.",
        ) from None
    return f"files:{digest.hexdigest()}"


def local(name: str) -> Path | None:
    """The folder that a model's name means, None where it is a name on the hub.

    Raises: DataMissing for a folder that is not there.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if name.startswith(("/", "./", "../", "~")):
        raise DataMissing(
            f"There is no folder {name} with a model.",
            "Check model.path (or model.name) in the run file.",
        )
    return None


def _sampled(path: Path, digest: hashlib.blake2b) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= WHOLE_BYTES:
            digest.update(file.read())
            return
        for place in range(SAMPLES):
            file.seek((size - SAMPLE_BYTES) * place // (SAMPLES - 1))
            digest.update(file.read(SAMPLE_BYTES))
