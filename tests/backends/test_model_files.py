"""A model is what its files are, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.backends._model_files import SAMPLE_BYTES, SAMPLES, WHOLE_BYTES, model_identity
from harness.errors import DataMissing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text('{"layers": 2}')
    (made / "model.safetensors").write_bytes(bytes(WHOLE_BYTES + 100_000))
    return made


def test_a_hubs_name_is_its_own_identity() -> None:
    assert model_identity("meta-llama/Llama-3.1-8B-Instruct") == "meta-llama/Llama-3.1-8B-Instruct"


def test_a_folder_that_is_written_as_one_must_be_there(tmp_path: Path) -> None:
    for name in (str(tmp_path / "no"), "./no", "../no", "~/no/such"):
        with pytest.raises(DataMissing, match="no folder"):
            model_identity(name)


def test_a_moved_folder_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    before = model_identity(str(folder))
    assert model_identity(str(folder.rename(tmp_path / "elsewhere"))) == before


@pytest.mark.parametrize("place", [0, WHOLE_BYTES + 99_999, WHOLE_BYTES // 2])
def test_other_weights_of_the_same_size_are_another_model(folder: Path, place: int) -> None:
    before = model_identity(str(folder))
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    # Training changes nearly every weight: a stretch between two samples need not be seen.
    reach = len(content) // SAMPLES + SAMPLE_BYTES
    begin = max(0, min(place, len(content) - reach))
    content[begin : begin + reach] = b"\x01" * reach
    weights.write_bytes(content)
    assert model_identity(str(folder)) != before


def test_a_changed_template_and_another_file_are_another_model(folder: Path) -> None:
    found = {model_identity(str(folder))}
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    found.add(model_identity(str(folder)))
    (folder / "chat_template.jinja").write_text("{{ messages[0] }}")
    found.add(model_identity(str(folder)))
    assert len(found) == 3
