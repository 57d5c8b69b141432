from pathlib import Path

import pytest

from harness.builders.json_lines import json_object, json_rows


def test_a_line_that_is_no_object_is_a_problem_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n[1]\n{"a": "\xff"}\n{"a": NaN}\n{"b": 2}')
    rows = dict(json_rows(path))
    assert list(rows) == [1, 3, 4, 5, 6]
    assert (rows[1], rows[6]) == ({"a": 1}, {"b": 2})
    assert all(str(rows[n]).startswith("not a JSON object (") for n in (3, 4, 5))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'"\\ud83d"', "\ufffd"),
        (b'"\\ude00\\ud83d"', "\ufffd\ufffd"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"ä \\ud83d"'.encode(), "ä \ufffd"),
    ],
)
def test_half_of_a_pair_is_replaced(line: bytes, found: str) -> None:
    assert json_object(b'{"a": ' + line + b"}") == {"a": found}
