"""People's labels and published scores: what is read, and what is refused with its line."""

from pathlib import Path

import pytest

from harness.analysis.inputs import Label, keep_labels, kept_labels, read_labels, read_model_scores
from harness.errors import DataInvalid, DataMissing


def labels(folder: Path, *lines: str) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_labels_are_read_in_their_order(tmp_path: Path) -> None:
    path = labels(
        tmp_path,
        '{"instance": "a", "sample": 2, "criterion": 0, "label": true, "note": {"by": "me"}}',
        "",
        '{"instance": "a", "criterion": "Be brief.", "label": false, "run": "r"}',
        '{"instance": "b", "label": null}',
    )
    assert read_labels(path) == [
        Label("a", True, 2, 0, note={"by": "me"}),
        Label("a", False, 0, "Be brief.", "r"),
        Label("b", None),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"instance": "a"}', "label"),
        ('{"instance": "a", "label": "yes"}', "label"),
        ('{"instance": "a", "label": 1}', "label"),
        ('{"instance": "a", "label": true, "smaple": 1}', "smaple"),
        ('{"instance": "a", "label": true, "sample": -1}', "sample"),
        ('{"instance": 3, "label": true}', "instance"),
        ("[" * 3000, "line 2"),
    ],
)
def test_a_line_that_is_no_label_is_named(line: str, said: str, tmp_path: Path) -> None:
    path = labels(tmp_path, '{"instance": "b", "label": true}', line)
    with pytest.raises(DataInvalid, match=said) as raised:
        read_labels(path)
    assert "line 2" in str(raised.value)


def test_one_criterion_is_labelled_once(tmp_path: Path) -> None:
    line = '{"instance": "a", "criterion": 1, "label": true}'
    with pytest.raises(DataInvalid, match=r"line 2: .* labelled in line 1"):
        read_labels(labels(tmp_path, line, line.replace("true", "false")))


def test_labels_are_kept_file_by_file(tmp_path: Path) -> None:
    earlier = tmp_path / "labels" / "j.jsonl"
    earlier.parent.mkdir()
    earlier.touch()
    many = [Label("a", True), Label("b", False, run=tmp_path.name), Label("c", True, run="other")]
    keep_labels(tmp_path, "j", "ann.jsonl", many)
    keep_labels(tmp_path, "j", "bob.json", many[:1])
    keep_labels(tmp_path, "j", "other.jsonl", many[2:])
    kept = kept_labels(tmp_path, "j")
    assert list(kept) == ["ann.jsonl", "bob.json", ""]
    assert read_labels(kept["ann.jsonl"]) == [Label("a", True), Label("b", False)]
    assert kept[""] == earlier, "of version 0.1"
    keep_labels(tmp_path, "j", "ann.jsonl", many[1:2])
    assert read_labels(kept["ann.jsonl"]) == [Label("b", False)]


def test_no_file_and_no_labels(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        read_labels(tmp_path / "none.jsonl")
    with pytest.raises(DataInvalid, match="no labels"):
        read_labels(labels(tmp_path, ""))


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
