import re
from pathlib import Path, PurePosixPath

import pytest

from harness.datasets.catalogue import CATALOGUE, DataSet, data_set
from harness.datasets.folder import sha256
from harness.errors import DataMissing
from tests.datasets import originals

each = pytest.mark.parametrize("found", CATALOGUE.values(), ids=CATALOGUE.keys())


@each
def test_an_entry_is_complete(found: DataSet) -> None:
    assert data_set(found.name) is found
    assert found.licence
    assert found.about
    names = [original.name for original in found.originals]
    assert len(set(names)) == len(names)
    assert {name for product in found.products for name in product.originals} == set(names)
    for original in found.originals:
        assert original.url.startswith("https://")
        assert original.url.endswith("/" + original.name)
        assert PurePosixPath(original.name).name == original.name
        assert original.size or original.limit
    for product in found.products:
        path = PurePosixPath(product.path)
        assert path.is_relative_to(found.folder)
        assert ".." not in path.parts


@each
def test_what_is_not_at_a_commit_has_its_products_pinned(found: DataSet) -> None:
    urls = {original.name: original.url for original in found.originals}
    for product in found.products:
        if product.sha256 is None:
            assert re.search(r"/[0-9a-f]{40}[./]", urls[product.original])
        else:
            assert re.fullmatch(r"[0-9a-f]{64}", product.sha256)


def test_collies_hashes_are_those_of_the_reference_data(data_dir: Path) -> None:
    for product in CATALOGUE["collie"].products:
        assert sha256(data_dir / product.path) == product.sha256
    for original in CATALOGUE["collie"].originals:
        assert len(originals.collie(data_dir)[original.name]) == original.size
    assert sha256(data_dir / "collie" / "all_data.dill") == CATALOGUE["collie"].originals[0].sha256


def test_natural_instructions_hashes_are_those_of_the_reference_data(data_dir: Path) -> None:
    *tasks, answers = CATALOGUE["natural_instructions"].products
    assert len(tasks) == 7
    for product in tasks:
        assert sha256(data_dir / product.path) == product.sha256
    # Their archive is put together again from the reference data in test_gpt3_predictions.
    assert answers.path.endswith("gpt3_predictions.jsonl")


def test_ifbenchs_words_are_those_of_the_reference_data(data_dir: Path) -> None:
    for product in CATALOGUE["nltk_english"].products:
        assert sha256(data_dir / "ifbench" / product.path) == product.sha256


def test_a_mistyped_name_names_the_nearest() -> None:
    with pytest.raises(DataMissing, match="no data set 'colie'") as caught:
        data_set("colie")
    assert caught.value.remedy == "Did you mean 'collie'?"
    with pytest.raises(
        DataMissing,
        match="Valid names: collie, followbench, ifbench, ifeval, jsonschemabench, natural",
    ):
        data_set("zzz")
