"""A run as an Inspect log: ``.eval``, which is a zip, or one ``.json``.

Sample by sample: a log may be larger than the memory.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.analysis.metrics import Metrics
from harness.config.run_file import RunFile
from harness.errors import ConfigError, DataInvalid
from harness.exchange.attempt_rows import ExportedRun
from harness.exchange.conversation import samples
from harness.exchange.inspect_header import inspect_header, model_name
from harness.exchange.inspect_sample import inspect_sample, summary
from harness.store.files import output_file
from harness.store.index import read_names

SUFFIXES = (".eval", ".json")

encode = msgspec.json.Encoder().encode


def write_inspect(
    run: ExportedRun,
    config: RunFile,
    manifest: Mapping[str, Any],
    metrics: Metrics,
    path: Path,
) -> None:
    """Write the log.

    Raises: a `harness.errors.HarnessError`; the file is then as it was.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(
            f"-o {path}: an Inspect log ends with .eval or .json.", "Inspect reads no other."
        )
    names = list(read_names(run.path).values())
    with output_file(path) as temporary:
        header = inspect_header(config, manifest, metrics, names)
        write = _write_eval if path.suffix == ".eval" else _write_json
        write(temporary, header, _samples(run, model_name(config), header["eval"]["eval_id"]))


def _samples(run: ExportedRun, model: str, log_id: str) -> Iterator[dict[str, Any]]:
    for number, rounds in enumerate(samples(run)):
        yield inspect_sample(rounds, model, f"{log_id}-{number}")


LONGEST_NAME = 60_000
"""Bytes; a zip has two for the length of a member's name."""


def _write_eval(path: Path, header: Mapping[str, Any], found: Iterator[dict[str, Any]]) -> None:
    with (
        tempfile.TemporaryFile(dir=path.parent) as summaries,  # one member is written at a time
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # of two members of one name
        start = {key: header[key] for key in ("version", "eval", "plan")}
        log.writestr("_journal/start.json", encode(start))
        for sample in found:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            if len(name.encode()) > LONGEST_NAME:
                raise DataInvalid(
                    f"The instance {name[8:80]!r}… has a name too long for a zip.",
                    "Name a file that ends in .json with -o.",
                )
            log.writestr(name, encode(sample))
            summaries.write((b"," if summaries.tell() else b"[") + encode(summary(sample)))
        summaries.write(b"]")
        summaries.seek(0)
        with log.open("summaries.json", "w", force_zip64=True) as member:
            shutil.copyfileobj(summaries, member, 1 << 20)
        log.writestr("header.json", encode(header))


def _write_json(path: Path, header: Mapping[str, Any], found: Iterator[dict[str, Any]]) -> None:
    with path.open("wb") as file:
        file.write(encode(header)[:-1] + b',"samples":[')
        for number, sample in enumerate(found):
            file.write((b"," if number else b"") + encode(sample))
        file.write(b"]}")
