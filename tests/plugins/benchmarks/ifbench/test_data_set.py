"""The data set's hashes are those of the reference data."""

from pathlib import Path

from harness.datasets.catalogue import catalogue
from harness.datasets.folder import sha256


def test_the_words_hashes_are_those_of_the_reference_data(data_dir: Path) -> None:
    for product in catalogue()["nltk_english"].products:
        assert sha256(data_dir / "ifbench" / product.path) == product.sha256
