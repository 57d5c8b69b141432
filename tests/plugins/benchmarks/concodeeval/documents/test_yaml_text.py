"""YAML with the core schema of 1.2, without tags, bombs and surprises."""

import time
from typing import Any

import pytest

from harness.plugins.benchmarks.concodeeval.documents import read
from harness.scoring.validators import UnparseableDocument
from tests.scoring.validators.named import named


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("[on, off, yes, y, True, FALSE]", ["on", "off", "yes", "y", True, False]),
        ("[null, ~, Null, '']", [None, None, None, ""]),
        ("a:", {"a": None}),
        ("[1_000, 0o17, 0x1F, 017, +5, -0]", ["1_000", 15, 31, 17, 5, 0]),
        ("[1e3, .5, 5., 1.5e+3, 12:30, 1:30:00]", [1000.0, 0.5, 5.0, 1500.0, "12:30", "1:30:00"]),
        ("[2020-01-01, 2020-01-01T00:00:00Z]", ["2020-01-01", "2020-01-01T00:00:00Z"]),
        ("['5', \"true\", !!str 5, ! 5]", ["5", "true", "5", "5"]),
        ("[!!int 5, !!float 5, !!bool true, !!null ~]", [5, 5.0, True, None]),
        ("1: a\nno: b\n~: c", {"1": "a", "no": "b", "~": "c"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}", {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}}),
        ("<<: [{a: 1}, {a: 2, b: 2}]\nc: 3", {"a": 1, "b": 2, "c": 3}),
        ("'<<': 5", {"<<": 5}),
        ("&k a: *k", {"a": "a"}),
        ("%YAML 1.2\n---\na: 1\n...", {"a": 1}),
        ("a: |\n  x\n  y\nb: >\n  x\n  y", {"a": "x\ny\n", "b": "x y"}),
        ("=", "="),
    ],
    ids=named,
)
def test_values(text: str, value: Any) -> None:
    found = read(text, "yaml")
    assert found == value
    assert repr(found) == repr(value)


def bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines)


MERGES = "a0: &a0 {x: 1}\n" + "\n".join(
    f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("a: 1\na: 2", "unparseable", r"the key 'a' occurs twice.*line 2, column 1"),
        ("1: a\n'1': b", "unparseable", "twice"),
        ("a: [1", "unparseable", r"not YAML.*line 2, column 1"),
        ("", "unparseable", "no document"),
        ("# nothing", "unparseable", "no document"),
        ("a\n---\nb", "unparseable", "second YAML document"),
        ("!!python/object/apply:os.system ['true']", "unparseable", "is not supported"),
        ("!!python/name:os.system ''", "unparseable", "is not supported"),
        ("!!binary aGk=", "unparseable", "is not supported"),
        ("!!set {a}", "unparseable", "is not supported"),
        ("!own x", "unparseable", "is not supported"),
        ("!!int five", "unparseable", "'five' is not of type int"),
        ("{[1]: 2}", "unparseable", "a key is not text"),
        ("<<: 5", "unparseable", "<< merges"),
        ("*a", "unparseable", "has no anchor"),
        ("&a [*a]", "unparseable", "refers to itself"),
        ("[.nan]", "unparseable", "not a JSON number"),
        ("-.inf", "unparseable", "not a JSON number"),
        ('"\\ud83d"', "unparseable", "not YAML"),
        ("\ud83d", "unparseable", "half of a surrogate pair"),
        ('"\\UFFFFFFFF"', "unparseable", "not YAML"),
        ("\0", "unparseable", "control characters"),
        ("1e999999", "limit", "exponent"),
        ("1" * 2000, "limit", "digits"),
        ("0x" + "f" * 2000, "limit", "digits"),
        ("[" * 500_000, "limit", "deeper than 100"),
        ("- " * 400_000, "limit", "deeper than 100"),
        ("{a: " * 200_000, "limit", "deeper than 100"),
        (bomb(12, 9), "limit", "100,000 values"),
        (bomb(120, 1), "limit", "deeper than 100"),
        (f"a: &x '{'y' * 10_000}'\nb: [{', '.join(['*x'] * 200)}]", "limit", "aliases written out"),
        (MERGES, "limit", "100,000 values"),
    ],
    ids=named,
)
def test_refusals(text: str, kind: str, reason: str) -> None:
    begun = time.process_time()
    with pytest.raises(UnparseableDocument, match=reason) as refused:
        read(text, "yaml")
    assert refused.value.kind == kind
    assert time.process_time() - begun < 5
