"""Where a value stands in a text: hand-made cases, whatever is rendered, and hostile texts."""

import json
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.documents import (
    FORMATS,
    Format,
    Mode,
    locate,
    read,
    render,
    third,
)
from harness.scoring.validators import UnparseableDocument, validator
from harness.scoring.validators.limits import pointer
from tests.plugins.benchmarks.concodeeval.test_hostile import TOKENS
from tests.scoring.validators.named import named

MODES: tuple[Mode, ...] = ("strict", "paper")


def said(text: str, format: Format, path: str, mode: Mode = "strict") -> str | None:
    """What stands there."""
    found = locate(text, format, path, mode=mode)
    return None if found is None else text[slice(*found)]


JSON = ' {"a": {"b": [1, {"x\\n": "é\\"}"}, -2.5e3]}, "": null, "a/b": [], "~": true, "😀": {}}\n'


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", JSON.strip()),
        ("/a", '{"b": [1, {"x\\n": "é\\"}"}, -2.5e3]}'),
        ("/a/b/0", "1"),
        ("/a/b/1", '{"x\\n": "é\\"}"}'),
        ("/a/b/1/x\n", '"é\\"}"'),
        ("/a/b/2", "-2.5e3"),
        ("/", "null"),
        ("/a~1b", "[]"),
        ("/~0", "true"),
        ("/😀", "{}"),
        ("/a/b/3", None),
        ("/a/b/01", None),
        ("/a/b/-1", None),
        ("/a/b/x", None),
        ("/a/0", None),
        ("/a~1b/0", None),
        ("/c", None),
        ("//x", None),
        ("a", None),
        ("/a" * 500, None),
    ],
)
def test_json(path: str, expected: str | None) -> None:
    for mode in MODES:
        assert said(JSON, "json", path, mode) == expected


def test_of_two_members_the_last_counts_as_in_the_papers_reading() -> None:
    text = '{"a": {"x": 1}, "b": 0, "a": {"y": [2]}}'
    assert said(text, "json", "/a", "paper") == '{"y": [2]}'
    assert said(text, "json", "/a/x", "paper") is None
    assert said(text, "json", "/a/y/0", "paper") == "2"
    assert said("a: 1\na: 2", "yaml", "/a", "paper") == "2"
    assert said("[NaN, -Infinity]", "json", "/1", "paper") == "-Infinity"
    lone = '{"\\ud83d": 5}'
    assert said(lone, "json", pointer(read(lone, mode="paper")), "paper") == "5"


YAML = """\
# a document
a:
  - é
  - b: 'it''s'   # one
    c: |
      two
      lines

  # between
  - [x, {y: 1}]
"a/b": !!str 5
no: &n {k: v}
alias: *n
empty:
1: one
last:
  <<: *n
  m: 2

# the end
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/0", "é"),
        ("/a/1/b", "'it''s'"),
        ("/a/1/c", "|\n      two\n      lines\n\n"),
        ("/a/2", "[x, {y: 1}]"),
        ("/a/2/1", "{y: 1}"),
        ("/a/2/1/y", "1"),
        ("/a~1b", "!!str 5"),
        ("/no", "&n {k: v}"),
        ("/alias", "&n {k: v}"),
        ("/alias/k", "v"),
        ("/empty", ""),
        ("/1", "one"),
        ("/last", "<<: *n\n  m: 2"),
        ("/last/k", "v"),
        ("/last/<<", None),
        ("/last/m", "2"),
        ("/a/3", None),
        ("/empty/x", None),
        ("/alias/x", None),
    ],
)
def test_yaml(path: str, expected: str | None) -> None:
    assert said(YAML, "yaml", path) == expected
    if path not in ("/no",):
        assert said(YAML, "yaml", path, "paper") == expected


def test_the_papers_yaml_has_its_own_names() -> None:
    text = "no: 1\n2020-01-01: 2\n0x10: 3\n1.50: 4\n~: 5\n2020-13-01: 6\n"
    found = {str(key): value for key, value in yaml.safe_load(text.replace("13-", "x-")).items()}
    assert list(found) == ["False", "2020-01-01", "16", "1.5", "None", "2020-x-01"]
    for key in list(found)[:5]:
        assert said(text, "yaml", f"/{key}", "paper") == str(found[key])
    assert said(text, "yaml", "/no") == "1"
    assert said(text, "yaml", "/no", "paper") is None
    merged = "a: &a {x: 1}\nb: &b {x: 2}\nc: {<<: [*a, *b]}\nd: {<<: *a, x: 3}\n"
    for mode in MODES:
        assert said(merged, "yaml", "/c/x", mode) == "1"
        assert said(merged, "yaml", "/d/x", mode) == "3"
    twice = "a: &a {x: 1}\nb: &b {x: 2}\nc:\n  <<: *a\n  <<: *b\n"
    for mode in MODES:
        assert said(twice, "yaml", "/c/x", mode) == str(read(twice, "yaml", mode=mode)["c"]["x"])


def test_a_byte_order_mark_moves_nothing() -> None:
    assert said("\ufeffa: é\nb: 1", "yaml", "/b") == "1"
    assert said("\ufeffa: é\nb: 1", "yaml", "/b", "paper") == "1"
    assert said("\ufeff<all><a>1</a></all>", "xml", "/a") == "<a>1</a>"


XML = """
<?xml version="1.0" ?>
<all>
    <a type="list"><item type="str">é&amp;</item><item type="dict"
      ><x>1</x ></item><item/></a>
    <key name="a b/~">5</key>
    <key name='0' type="str"/>
    <!-- <item> --><t><![CDATA[<b>]]></t>
</all>
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", XML.strip().partition("?>\n")[2]),
        ("/a/0", '<item type="str">é&amp;</item>'),
        ("/a/1", '<item type="dict"\n      ><x>1</x ></item>'),
        ("/a/1/x", "<x>1</x >"),
        ("/a/2", "<item/>"),
        ("/a b~1~0", '<key name="a b/~">5</key>'),
        ("/0", "<key name='0' type=\"str\"/>"),
        ("/t", "<t><![CDATA[<b>]]></t>"),
        ("/a/3", None),
        ("/a/item", None),
        ("/all", None),
        ("/a/1/0", None),
        ("/t/b", None),
    ],
)
def test_xml(path: str, expected: str | None) -> None:
    assert said(XML, "xml", path) == expected


def test_xml_items_are_a_list_or_a_member() -> None:
    assert said("<all><item>5</item></all>", "xml", "/0") == "<item>5</item>"
    assert said("<all><item>5</item></all>", "xml", "/item") == "<item>5</item>"
    assert said("<all><item>5</item><item/></all>", "xml", "/item") is None


PAPER = """<!DOCTYPE r>
<r x='1' long = "a > b é" empty="">
  é one <!-- no --> <b>1</b><b y="/">2</b> two
  <c/><d>text</d><e k="v"><![CDATA[ in ]]></e><b><z>3</z></b>
</r>"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/r/@x", PAPER.partition("\n")[2]),
        ("/r/@long", PAPER.partition("\n")[2]),
        ("/r/@empty", PAPER.partition("\n")[2]),
        ("/r/#text", PAPER.partition("\n")[2]),
        ("/r/@none", None),
        ("/r/@x/0", None),
        ("/r/b/0", "<b>1</b>"),
        ("/r/b/1", '<b y="/">2</b>'),
        ("/r/b/1/@y", '<b y="/">2</b>'),
        ("/r/b/1/#text", '<b y="/">2</b>'),
        ("/r/b/2/z", "<z>3</z>"),
        ("/r/b/3", None),
        ("/r/b/z", None),
        ("/r/c", "<c/>"),
        ("/r/c/0", None),
        ("/r/c/#text", None),
        ("/r/d", "<d>text</d>"),
        ("/r/d/#text", None),
        ("/r/e/#text", '<e k="v"><![CDATA[ in ]]></e>'),
        ("/x", None),
        ("", PAPER.partition("\n")[2]),
        ("/r", PAPER.partition("\n")[2]),
    ],
)
def test_the_papers_xml(path: str, expected: str | None) -> None:
    assert said(PAPER, "xml", path, "paper") == expected


def test_the_papers_xml_has_lists() -> None:
    items = said(PAPER, "xml", "/r/b", "paper")
    assert items is not None
    assert items.startswith("<b>1</b>")
    assert items.endswith("<z>3</z></b>")


@pytest.mark.parametrize(
    "text", ["<a/>", "<a x='/>'/>", "<a x='/>'></a>", "<a>/></a>", "<a><!--/>--></a>"]
)
def test_an_element_ends_where_its_tag_does(text: str) -> None:
    assert said(f"<all>{text}<b/></all>", "xml", "/all/a", "paper") == text
    assert said(f"<all>{text}<b/></all>", "xml", "/all", "paper") == f"<all>{text}<b/></all>"


def test_a_violations_path_has_a_place() -> None:
    schema = {"properties": {"a": {"items": {"maximum": 3}}}}
    text = "<all><a><item>1</item><item>5</item></a></all>"
    [found] = validator(schema).violations(read(text, "xml", schema=schema))
    assert said(text, "xml", found.path) == "<item>5</item>"


def test_thirds() -> None:
    assert [third(at, 9) for at in (0, 2, 3, 5, 6, 9)] == [
        "first", "first", "middle", "middle", "last", "last",
    ]  # fmt: skip
    assert (third(0, 0), third(0, 1), third(1, 1), third(1, 2)) == (
        "first", "first", "last", "middle",
    )  # fmt: skip


WORDS = st.text(max_size=6) | st.sampled_from(
    [
        "é😀",
        "no",
        "~",
        "/",
        "a/b",
        "~1",
        "0",
        "item",
        "key",
        "- x",
        "a: b",
        "\n",
        " \n x",
        "<a>",
        "#",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(WORDS, inside, max_size=4),
    max_leaves=12,
)  # fmt: skip


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each pointer into a value, and what is there."""
    yield pointer(path), value
    if isinstance(value, (dict, list)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(one, (*path, key))


def read_back(slice_: str, format: Format, column: int) -> Any:
    """The value of a text cut from a document, where its first line began at a column."""
    if format == "yaml":
        slice_ = textwrap.dedent(" " * column + slice_)
    return read(slice_, format)


@settings(deadline=None, max_examples=50)
@given(VALUES, st.sampled_from(FORMATS))
def test_what_stands_there_reads_back_to_the_value(value: Any, format: Format) -> None:
    try:
        text = render(value, format)
    except DataInvalid:  # a character that XML cannot hold
        assume(False)
    for path, one in paths(value):
        found = locate(text, format, path)
        assert found is not None, path
        start, end = found
        column = start - (text.rfind("\n", 0, start) + 1)
        again = read_back(text[start:end], format, column)
        if format == "xml" and one == {} and path == "":
            continue
        assert again == one
        assert json.dumps(again) == json.dumps(one)  # true is no 1
    assert locate(text, format, "/nowhere/at/all") is None


FLOW = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab é", max_size=3),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.text("abé", max_size=2), inside)
    ),
    max_leaves=10,
)


@settings(deadline=None, max_examples=30)
@given(FLOW, st.booleans(), st.sampled_from(MODES))
def test_yaml_in_flow_style(value: Any, unicode: bool, mode: Mode) -> None:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=unicode, width=20)
    for path, one in paths(value):
        slice_ = said(text, "yaml", path, mode)
        assert slice_ is not None
        assert yaml.safe_load(textwrap.dedent(slice_)) == one


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(st.text("ab", min_size=1, max_size=2), FLOW, min_size=1))
def test_leaves_of_the_papers_xml(value: dict[str, Any]) -> None:
    text = render({"r": value}, "xml")
    for path, one in paths(read(text, "xml", mode="paper")):
        slice_ = said(text, "xml", path, "paper")
        assert slice_ is not None, path
        if isinstance(one, str) and path.rpartition("/")[2].startswith(("@", "#")):
            assert one in slice_
        elif one is None or isinstance(one, str):
            assert list(read(slice_, "xml", mode="paper").values()) == [one]


LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
)


DEEP: dict[Format, str] = {"json": "/a/a", "yaml": "/b/x", "xml": "/a/#text"}
"""Of each format a path into the texts below that its reader has to work for."""


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "[" * 500_000,
        "[" * 99 + "]" * 99,
        "[" * 5_000 + "]" * 5_000,
        '{"a":' * 500 + "1" + "}" * 500,
        "[" + "0," * 49_999 + "0]",
        "[" + "0," * 499_999 + "0]",
        '"' + "\\" * 999_990 + '"',
        '{"' + "a" * 900_000 + '": 1}',
        "<a>" * 300_000,
        "<a>" + "<b/>" * 20_000 + "</a>",
        "<a " + "x" * 900_000 + "='1'/>",
        "<a>" + "\n" * 900_000 + "</a>",
        "<a>" + "<!-- x -->" * 90_000 + "x</a>",
        "<a>" + "x<b/>" * 20_000 + "</a>",
        "<!DOCTYPE a [<!ENTITY b 'x'>]><a>&b;</a>",
        "&a [*a]",
        "&a {<<: *a}",
        "a: &a {<<: [" + "{x: 1}, " * 3_000 + "]}\nb: {<<: *a}",
        "? " * 5_000,
        "- " * 5_000,
        ": " * 5_000,
        "1:" * 20_000 + "1",
        "\ud83d",
        "\0",
        "a" * 1_000_001,
        "",
        "!!python/object/apply:os.system [x]",
        "!!binary x: 1",
    ],
    ids=named,
)
@pytest.mark.parametrize("format", FORMATS)
def test_hostile_texts_end(format: Format, text: str) -> None:
    for mode in MODES:
        path = DEEP[format] if mode == "paper" else "/0" * 99
        begun = time.process_time()
        found = locate(text, format, path, mode=mode)
        assert time.process_time() - begun < 10
        assert found is None or 0 <= found[0] <= found[1] <= len(text)


@settings(deadline=None)
@given(
    st.lists(TOKENS, max_size=40).map("".join) | st.text(max_size=40),
    st.sampled_from(FORMATS),
    st.sampled_from(MODES),
    st.text("/~01a#@é", max_size=8),
)
def test_any_text_and_any_path(text: str, format: Format, mode: Mode, path: str) -> None:
    for one in ("", "/a", "/all", "/0", path, f"/{path}"):
        found = locate(text, format, one, mode=mode)
        assert found is None or 0 <= found[0] <= found[1] <= len(text)


@settings(deadline=None)
@given(st.lists(TOKENS, max_size=30).map("".join), st.sampled_from(FORMATS), st.sampled_from(MODES))
def test_what_is_read_has_its_places(text: str, format: Format, mode: Mode) -> None:
    try:
        value = read(text, format, mode=mode)
    except UnparseableDocument:
        return
    if value is None and format == "yaml":  # the paper reads null of a text without a document
        return
    for path, _ in paths(value):
        assert locate(text, format, path, mode=mode) is not None
