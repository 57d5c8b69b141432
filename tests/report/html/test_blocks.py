import base64
import gzip
import json
import re

import pytest

from harness.report.html.inline import block, json_block, source_hash, to_json


def test_a_block_holds_its_data_and_no_letter_that_ends_it() -> None:
    data = b"</script><!--" * 100
    found = re.fullmatch(
        r'<script type="[^"]+" id="name">([A-Za-z0-9+/=]+)</script>\n', block("name", data)
    )
    assert found
    assert gzip.decompress(base64.b64decode(found[1])) == data


def test_the_same_data_make_the_same_block() -> None:
    assert json_block("a", [1]) == json_block("a", [1])


def test_half_a_character_is_replaced() -> None:
    assert json.loads(to_json({"\ud800a": ["b\udc00", 1]})) == {"\ufffda": ["b\ufffd", 1]}


def test_a_source_is_named_by_its_hash() -> None:
    assert source_hash("") == "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"


@pytest.mark.parametrize("text", ["a</SCRIPT>", "</style", "<!-- a"])
def test_a_source_that_ends_its_element_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="end or hide"):
        source_hash(text)
