"""People's labels: what is read, and what is refused with its line."""

from pathlib import Path

import pytest

from harness.errors import DataInvalid, DataMissing
from harness.store.judge_labels import Label, read_labels


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


def test_no_file_and_no_labels(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        read_labels(tmp_path / "none.jsonl")
    with pytest.raises(DataInvalid, match="no labels"):
        read_labels(labels(tmp_path, ""))
