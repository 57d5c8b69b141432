import gzip
import hashlib
from pathlib import Path

import pytest

from harness.datasets.catalogue import catalogue
from harness.datasets.folder import DataFolder, read_jsonl, sha256
from harness.errors import ConfigError, DataInvalid, DataMissing


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    root = tmp_path / "data"
    (root / "toys").mkdir(parents=True)
    (root / "toys" / "instances.jsonl").write_text("{}\n")
    return DataFolder(root)


def test_a_file_is_found_below_the_data_folder(data: DataFolder) -> None:
    assert data.file("toys/instances.jsonl") == data.root / "toys" / "instances.jsonl"


def test_a_file_of_its_own_is_found_by_its_path(
    data: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.jsonl"
    own.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data.file(str(own)) == own
    assert data.file("own.jsonl").resolve() == own
    assert data.file("~/own.jsonl") == own


def test_a_packed_file_stands_in_for_the_one_that_is_named(data: DataFolder) -> None:
    packed = data.root / "toys" / "rows.jsonl.gz"
    packed.touch()
    assert data.file("toys/rows.jsonl") == packed
    plain = data.root / "toys" / "rows.jsonl"
    plain.touch()
    assert data.file("toys/rows.jsonl") == plain
    with pytest.raises(DataMissing, match=r"no file 'toys/others\.jsonl' in"):
        data.file("toys/others.jsonl")


def test_a_place_is_a_file_or_a_folder(data: DataFolder, tmp_path: Path) -> None:
    assert data.file_or_folder("toys") == data.root / "toys"
    assert data.file_or_folder("toys/instances.jsonl").is_file()
    (tmp_path / "own").mkdir()
    assert data.file_or_folder(str(tmp_path / "own")) == tmp_path / "own"
    with pytest.raises(DataMissing, match="There is no file or folder '"):
        data.file_or_folder("x" * 300)


def test_the_data_folder_goes_over_the_current_one(
    data: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "instances.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    assert data.file("toys/instances.jsonl").is_relative_to(data.root)


def test_a_missing_data_set_names_the_command_that_brings_it(
    data: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue(), "nltk_data", catalogue()["punkt"])
    with pytest.raises(DataMissing, match="harness data fetch nltk_data"):
        data.file_or_folder("nltk_data/tokenizers")
    with pytest.raises(DataMissing, match="harness data fetch nltk_data") as caught:
        data.file(catalogue()["punkt"].products[0].path)
    assert str(data.root) in caught.value.message
    assert "HARNESS_DATA_DIR" in caught.value.remedy


def test_a_missing_data_set_that_is_not_fetched_names_its_page(data: DataFolder) -> None:
    with pytest.raises(DataMissing, match="'harness docs mock' says where to get it"):
        data.file_or_folder("mock/recordings")


@pytest.mark.parametrize("name", ["/nowhere/x.jsonl", "x.jsonl", "", ".", "a" * 5000, "a\0b"])
def test_a_missing_file_of_no_data_set_is_a_wrong_path(data: DataFolder, name: str) -> None:
    with pytest.raises(DataMissing, match=r"in the data folder .* or in /") as caught:
        data.file(name)
    assert caught.value.remedy == "Check the path."


def test_a_file_that_the_command_does_not_install_names_the_data_sets_page(
    data: DataFolder,
) -> None:
    with pytest.raises(DataMissing) as caught:
        data.file("punkt/responses_gpt4.jsonl")
    assert caught.value.remedy == (
        "'harness data fetch punkt' does not install it: see 'harness docs punkt'."
    )


def test_a_mistyped_file_of_your_own_suggests_the_one_beside_it(
    data: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, remedy in {
        "../row.jsonl": "Did you mean '../rows.jsonl'?",
        "../labels.csv": "Check the path.",
        "../nowhere/rows.jsonl": "Check the path.",
    }.items():
        with pytest.raises(DataMissing) as caught:
            data.file(name)
        assert caught.value.remedy == remedy


def test_a_folder_is_no_file(data: DataFolder) -> None:
    with pytest.raises(DataMissing):
        data.file("toys")


def test_the_objects_of_a_file_come_one_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"a": 1}\n\n  \r\n{"b": "\xc3\xa4\\u0000"}\r\n{"c": 3}\nnonsense\n')
    rows = read_jsonl(file)
    assert [next(rows), next(rows), next(rows)] == [{"a": 1}, {"b": "ä\0"}, {"c": 3}]


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"a": 1}\n{"a": 2}')
    assert list(read_jsonl(file)) == [{"a": 1}, {"a": 2}]


NOT_OBJECTS = [
    *(b"nonsense", b"[1]", b"3", b"null", b'"text"', b'{"a": 1', b'{"a": 1} {}', b"{1: 2}"),
    *(b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": ' + b"[" * 100_000),
]


@pytest.mark.parametrize(
    ("line", "what"),
    [(b'{"a": "\xff"}', "UTF-8 text"), *((line, "a JSON object") for line in NOT_OBJECTS)],
)
def test_a_damaged_line_is_named_with_its_number(tmp_path: Path, line: bytes, what: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"a": 1}\n\n' + line + b"\n")
    rows = read_jsonl(file)
    assert next(rows) == {"a": 1}
    with pytest.raises(DataInvalid, match=rf"x\.jsonl, line 3: not {what}"):
        next(rows)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"Cannot read .*: Is a directory"):
        list(read_jsonl(tmp_path))
    with pytest.raises(DataMissing, match=r"Cannot read .*: No such file"):
        list(read_jsonl(tmp_path / "gone.jsonl"))


def test_a_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\0" * 3_000_000)
    assert sha256(file) == hashlib.sha256(b"\0" * 3_000_000).hexdigest()


def test_a_packed_file_is_read_as_one_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n\n{"a":2}\n'))
    assert list(read_jsonl(path)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "broken",
    [b"{}", gzip.compress(b"{}\n" * 1000)[:-20], gzip.compress(b"{}\n")[:-9] + b"x" * 9],
    ids=["not packed", "cut short", "overwritten"],
)
def test_a_packed_file_that_is_damaged_is_named(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(broken)
    with pytest.raises(DataInvalid, match=r"rows\.jsonl\.gz, after line \d+: not complete gzip"):
        list(read_jsonl(path))


@pytest.mark.parametrize(("beginning", "number"), [(b"{}\n", 2), (b"\xef\xbb\xbf", 1)])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, beginning: bytes, number: int
) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(beginning)
        for _ in range(65):
            file.write(b" " * 2**19 + b"x" * 2**19)
    with pytest.raises(DataInvalid, match=rf"line {number}: more than 67,108,864 bytes"):
        list(read_jsonl(path))


def test_files_next_to_the_run_file_are_found_and_a_different_one_elsewhere_is_refused(
    data: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, here = tmp_path / "beside", tmp_path / "here"
    for folder in (beside, here):
        folder.mkdir()
    monkeypatch.chdir(here)
    data = DataFolder(data.root, beside)
    (beside / "rows.jsonl").write_text("{}")
    (beside / "check.py").write_text("1")
    assert data.file("rows.jsonl") == beside / "rows.jsonl"
    assert data.next_to_run_file("./check.py") == str(beside / "check.py")
    assert data.next_to_run_file("missing.py") == "missing.py"
    for copy in (here / "rows.jsonl", here / "check.py", data.root / "rows.jsonl"):
        copy.write_text("{}" if copy.suffix == ".jsonl" else "1")
    assert data.file("rows.jsonl").read_text() == "{}"
    assert data.next_to_run_file("./check.py") == str(beside / "check.py")  # with what it imports
    assert DataFolder(data.root, here).next_to_run_file("./check.py") == "./check.py"
    (data.root / "rows.jsonl").write_text("{ }")
    with pytest.raises(ConfigError, match=r"two different files 'rows\.jsonl': .*data.* and .*"):
        data.file("rows.jsonl")
    (here / "check.py").write_text("2")
    with pytest.raises(ConfigError, match=r"two different files './check\.py'"):
        data.next_to_run_file("./check.py")
