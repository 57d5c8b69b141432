"""A model is what its files are, wherever they lie."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataInvalid, DataMissing
from harness.plugins.vllm.model import LARGE_BYTES, Hashes, files_identity, model_identity


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text('{"layers": 2}')
    (made / "model.safetensors").write_bytes(bytes(LARGE_BYTES + 100_000))
    return made


@pytest.fixture
def hashes(tmp_path: Path) -> Hashes:
    return Hashes(tmp_path / "cache" / "model_files.json")


def test_a_hubs_name_is_its_own_identity(hashes: Hashes) -> None:
    assert model_identity("some/Llama-3.1-8B", hashes) == "some/Llama-3.1-8B"


def test_a_folder_that_is_written_as_one_must_be_there(tmp_path: Path, hashes: Hashes) -> None:
    for name in (str(tmp_path / "no"), "./no", "../no", "~/no/such"):
        with pytest.raises(DataMissing, match="no model folder"):
            model_identity(name, hashes)


def test_a_moved_folder_is_the_same_model(folder: Path, tmp_path: Path, hashes: Hashes) -> None:
    before = model_identity(str(folder), hashes)
    assert model_identity(str(folder.rename(tmp_path / "elsewhere")), hashes) == before


@pytest.mark.parametrize("place", [0, LARGE_BYTES + 99_999, LARGE_BYTES // 2, 1_234_567])
def test_one_byte_makes_another_model(folder: Path, hashes: Hashes, place: int) -> None:
    before = model_identity(str(folder), hashes)
    weights = folder / "model.safetensors"
    dates = weights.stat()
    with weights.open("r+b") as file:
        file.seek(place)
        file.write(b"\x01")
    os.utime(weights, ns=(dates.st_atime_ns, dates.st_mtime_ns))  # as some ways to copy do
    assert model_identity(str(folder), hashes) != before


def test_a_changed_template_and_another_file_are_another_model(
    folder: Path, hashes: Hashes
) -> None:
    found = {model_identity(str(folder), hashes)}
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    found.add(model_identity(str(folder), hashes))
    (folder / "chat_template.jinja").write_text("{{ messages[0] }}")
    found.add(model_identity(str(folder), hashes))
    assert len(found) == 3


def test_a_large_file_is_read_once(folder: Path, hashes: Hashes, tmp_path: Path) -> None:
    before = model_identity(str(folder), hashes)
    memory = tmp_path / "cache" / "model_files.json"
    assert "model.safetensors" in memory.read_text()
    assert "config.json" not in memory.read_text()
    known = json.loads(memory.read_text())
    memory.write_text(json.dumps({path: [stat, "other"] for path, (stat, _) in known.items()}))
    assert model_identity(str(folder), hashes) != before, "what is remembered is used"
    memory.unlink()
    assert model_identity(str(folder), hashes) == before


@given(st.binary())
def test_a_damaged_memory_is_none(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    place = tmp_path_factory.mktemp("memory")
    (place / "weights").write_bytes(b"w")
    (place / "memory.json").write_bytes(content)
    assert files_identity(place / "weights", Hashes(place / "memory.json")) == files_identity(
        place / "weights", Hashes()
    )


def test_a_memory_that_cannot_be_written_costs_no_answer(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert model_identity(str(folder), Hashes(tmp_path / "file" / "no.json"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_told(folder: Path, hashes: Hashes) -> None:
    (folder / "config.json").chmod(0)
    with pytest.raises(DataInvalid, match="cannot be read"):
        model_identity(str(folder), hashes)
