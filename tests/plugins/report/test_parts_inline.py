import base64
import gzip
import json
import re

import pytest
from markupsafe import Markup

from harness.plugins.report.parts import all_visible, block, marked, source_hash, to_json, visible


def test_a_block_holds_its_data_and_no_letter_that_ends_it() -> None:
    data = b"</script><!--" * 100
    found = re.fullmatch(
        r'<script type="[^"]+" id="name">([A-Za-z0-9+/=]+)</script>\n', block("name", data)
    )
    assert found
    assert gzip.decompress(base64.b64decode(found[1])) == data


def test_the_same_data_make_the_same_block() -> None:
    assert block("a", b"[1]") == block("a", b"[1]")


def test_half_a_character_is_replaced() -> None:
    assert json.loads(to_json({"\ud800a": ["b\udc00", 1]})) == {"\ufffda": ["b\ufffd", 1]}


def test_a_source_is_named_by_its_hash() -> None:
    assert source_hash("") == "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"


@pytest.mark.parametrize("text", ["a</SCRIPT>", "</style", "<!-- a"])
def test_a_source_that_ends_its_element_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="end or hide"):
        source_hash(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünï 日本\n\tline", "plain ünï 日本\n\tline"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\x00\x1b\x7f\x9b", "⟨U+0000⟩⟨U+001B⟩⟨U+007F⟩⟨U+009B⟩"),
        ("\u200e\u200f\u061c\u2066", "⟨U+200E⟩⟨U+200F⟩⟨U+061C⟩⟨U+2066⟩"),
        ("\u2028\u3164\u2800", "⟨U+2028⟩⟨U+3164⟩⟨U+2800⟩"),
        ("\ud83d half", "⟨U+D83D⟩ half"),
        ("tag \U000e0041 selector \U000e0100", "tag ⟨U+E0041⟩ selector ⟨U+E0100⟩"),
        ("❤️", "❤️"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert marked(text).striptags() == " ".join(shown.split())


def test_markup_is_escaped_and_escapes_are_marked() -> None:
    assert marked("<b>\x00&\x01") == Markup(
        '&lt;b&gt;<span class="escape">⟨U+0000⟩</span>&amp;<span class="escape">⟨U+0001⟩</span>'
    )


def test_a_charts_fields_stay_those_of_its_data() -> None:
    chart = {"field": "a\u202e", "values": [{"a\u202e": 1, "b": ["\x00", None, 0.5]}]}
    assert all_visible(chart) == {
        "field": "a⟨U+202E⟩",
        "values": [{"a⟨U+202E⟩": 1, "b": ["⟨U+0000⟩", None, 0.5]}],
    }
