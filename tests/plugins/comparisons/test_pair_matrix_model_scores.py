"""Published scores: what is read, and what is refused with its line."""

from pathlib import Path

import pytest

from harness.errors import DataInvalid, DataMissing
from harness.plugins.comparisons.pair_matrix import read_model_scores


def test_csv_and_jsonl_say_the_same(tmp_path: Path) -> None:
    table, lines = tmp_path / "s.csv", tmp_path / "s.jsonl"
    table.write_text("model,ifeval,mmlu\na,0.5,70\nb,,60\n", "utf-8-sig")
    lines.write_text(
        '{"model": "a", "ifeval": 0.5, "mmlu": 70}\n\n{"model": "b", "ifeval": null, "mmlu": 60}\n'
    )
    expected = {"ifeval": {"a": 0.5}, "mmlu": {"a": 70.0, "b": 60.0}}
    assert read_model_scores(table) == expected == read_model_scores(lines)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.csv", "name,score\na,1\n", "item 1: it must name a model"),
        ("s.csv", "model,score\na,1\na,2\n", "item 2: the model 'a' appears twice"),
        ("s.csv", "model,score\na,x\n", "not 'x'"),
        ("s.csv", "model,score\na,nan\n", "not 'nan'"),
        ("s.csv", "model,score\na,1,2\n", "line 2: 3 values for 2 columns"),
        ("s.csv", "model,score\n", "contains no items"),
        ("s.csv", "", "contains no items"),
        ("s.jsonl", '{"model": "a", "score": true}\n', "not 'True'"),
        ("s.jsonl", '{"model": "a", "score": [1]}\n', "must be a number"),
        ("s.jsonl", "[]\n", "line 1: not a JSON object"),
        ("s.jsonl", '{"model": "a", "score": 1e999}\n', "not a JSON object"),
    ],
)
def test_what_is_malformed_is_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataInvalid, match=message):
        read_model_scores(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("none.csv", "none.jsonl"):
        with pytest.raises(DataMissing, match="Cannot read"):
            read_model_scores(tmp_path / name)
    (tmp_path / "s.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(DataInvalid):
        read_model_scores(tmp_path / "s.jsonl")
