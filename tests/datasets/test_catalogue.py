import re
from pathlib import PurePosixPath

import pytest

from harness.datasets.catalogue import DataSet, catalogue, find_data_set
from harness.errors import DataMissing

each = pytest.mark.parametrize("found", catalogue().values(), ids=catalogue().keys())


@each
def test_an_entry_is_complete(found: DataSet) -> None:
    assert find_data_set(found.name) is found
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


def test_a_mistyped_name_names_the_nearest() -> None:
    with pytest.raises(DataMissing, match="no data set 'punk'") as caught:
        find_data_set("punk")
    assert caught.value.remedy == "Did you mean 'punkt'?"
    with pytest.raises(DataMissing, match=r"Valid names: .*punkt"):
        find_data_set("zzz")
