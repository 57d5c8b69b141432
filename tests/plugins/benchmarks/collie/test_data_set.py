"""The data set's hashes are those of the reference data."""

from pathlib import Path

from harness.datasets.catalogue import catalogue
from harness.datasets.folder import sha256
from tests.plugins.benchmarks.collie import originals


def test_its_hashes_are_those_of_the_reference_data(data_dir: Path) -> None:
    for product in catalogue()["collie"].products:
        assert sha256(data_dir / product.path) == product.sha256
    for original in catalogue()["collie"].originals:
        assert len(originals.collie(data_dir)[original.name]) == original.size
    original = catalogue()["collie"].originals[0]
    assert sha256(data_dir / "collie" / "all_data.dill") == original.sha256
