"""What tests of several benchmarks share: NLTK's parameters."""

import os
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def punkt_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """NLTK's English sentence parameters in the data folder, where they can be had."""
    from harness.plugins.benchmarks.ifeval.instructions import splitter  # it may be removed

    known = ROOT.parent / "shared" / "nltk_data"
    if "NLTK_DATA" in os.environ or not known.is_dir():
        yield
        return
    folder = tmp_path_factory.mktemp("data")
    (folder / "nltk_data").symlink_to(known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_DATA_DIR", str(folder))
        splitter.cache_clear()
        yield
    splitter.cache_clear()
