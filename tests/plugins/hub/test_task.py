"""Data sets of the Hub and folders of their files as benchmarks."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.hub.task import HubTask
from harness.plugins.testing import check_task
from harness.records import Message
from tests.plugins.hub.hub_server import COMMIT, hub_server

datasets = pytest.importorskip("datasets")

ROWS = [
    {"question": f"What is {n} + {n}?", "answer": str(2 * n), "kind": n % 2, "image": None}
    for n in range(4)
]
FEATURES = datasets.Features(
    {
        "question": datasets.Value("string"),
        "answer": datasets.Value("string"),
        "kind": datasets.ClassLabel(names=["even", "odd"]),
        "image": datasets.Image(),
    }
)
OPTIONS = {"prompt": "{{ question }}", "columns": {"target": "answer"}, "checks": "exact_match"}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parquet")
    found = datasets.Dataset.from_list(ROWS, features=FEATURES)
    found.to_parquet(folder / "test-00000-of-00001.parquet")
    found.select(range(1)).to_parquet(folder / "train-00000-of-00001.parquet")
    return folder


def made(dataset: Path | str, **options: Any) -> HubTask:
    data, own = DataFolder(Path("nowhere")), OPTIONS | options
    task: HubTask = kind("tasks").build("hub", {"dataset": str(dataset), **own}, data=data)
    return task


def test_the_task_is_right(parquet: Path) -> None:
    assert check_task(made(parquet)) == []


@pytest.mark.parametrize("form", ["parquet", "file", "jsonl", "csv", "arrow", "saved"])
def test_rows_are_read_from_each_format(tmp_path: Path, parquet: Path, form: str) -> None:
    found = datasets.load_dataset(str(parquet), split="test").remove_columns("image")
    place = tmp_path / "set"
    match form:
        case "parquet":
            place = parquet
        case "file":
            place = parquet / "test-00000-of-00001.parquet"
        case "jsonl":
            found.to_json(place / "test.jsonl")
        case "csv":
            found.to_csv(place / "test.csv")
        case "arrow":
            found.save_to_disk(tmp_path / "saved")
            place.mkdir()
            next((tmp_path / "saved").glob("*.arrow")).rename(place / "test.arrow")
        case "saved":
            datasets.DatasetDict({"test": found}).save_to_disk(place)
    task = made(place)
    instances = list(task.instances())
    assert [one.data.messages for one in instances] == [
        (Message("user", row["question"]),) for row in ROWS
    ]
    for instance, row in zip(instances, ROWS, strict=True):
        assert task.score(instance, str(row["answer"]))["exact_match"].passed
        assert not task.score(instance, "no")["exact_match"].passed
        assert task.reference(instance) == str(row["answer"])


def test_class_labels_are_names_and_media_are_left_out(parquet: Path) -> None:
    rows = [one.data.row for one in made(parquet, groups=["kind"]).instances()]
    assert [row["kind"] for row in rows] == ["even", "odd", "even", "odd"]
    assert not any("image" in row for row in rows)


@pytest.mark.parametrize(("split", "count"), [("train", 1), ("test[:3]", 3), (None, 4)])
def test_a_split_or_a_part_of_it_is_chosen(parquet: Path, split: str, count: int) -> None:
    assert len(list(made(parquet, split=split).instances())) == count


def test_a_column_may_be_a_template(parquet: Path) -> None:
    task = made(parquet, columns={"target": "{{ question | split | last }}"})
    assert [one.data.row["target"] for one in task.instances()] == ["0?", "1?", "2?", "3?"]


def test_the_fingerprint_changes_with_the_data_and_the_columns(
    tmp_path: Path, parquet: Path
) -> None:
    first = made(parquet).fingerprint()
    assert made(parquet).fingerprint() == first
    other = made(parquet, columns={"target": "question"}).fingerprint()
    assert other["dataset_sha256"] == first["dataset_sha256"]
    assert other["columns_sha256"] != first["columns_sha256"]
    (tmp_path / "test.jsonl").write_text(json.dumps(ROWS[0]))
    assert made(tmp_path).fingerprint()["dataset_sha256"] != first["dataset_sha256"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"split": "dev"}, "no split 'dev'. Set task.split to one of: train, test"),
        ({"subset": "x"}, "no subset 'x'. Set task.subset to one of: default"),
        ({"columns": {"target": "answr"}}, "no column 'answr'. Did you mean 'answer'"),
    ],
)
def test_a_wrong_option_names_the_right_ones(
    parquet: Path, options: Mapping[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        list(made(parquet, **options).instances())


def test_files_that_are_no_data_set_are_refused(tmp_path: Path) -> None:
    (tmp_path / "test.parquet").write_bytes(b"PAR1 not a table")
    with pytest.raises(DataInvalid, match="not readable as a data set"):
        list(made(tmp_path).instances())
    (tmp_path / "test.parquet").unlink()
    datasets.Dataset.from_dict({"question": []}).to_parquet(tmp_path / "test.parquet")
    with pytest.raises(DataInvalid, match="no rows"):
        list(made(tmp_path).instances())


def test_a_million_rows_are_read_in_flat_memory(tmp_path: Path) -> None:
    texts = [f"What is {n} + {n}?" for n in range(50_000)]
    part = datasets.Dataset.from_dict({"question": texts, "answer": ["4"] * len(texts)})
    for number in range(20):
        part.to_parquet(tmp_path / f"test-{number:05}-of-00020.parquet", batch_size=1_000)
    peaks = []
    rows = made(tmp_path)._source.rows()
    for number, _ in enumerate(rows, start=1):
        if number in (100_000, 1_000_000):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # kilobytes
    assert number == 1_000_000
    assert peaks[1] - peaks[0] < 100_000


READ = """
import sys
from pathlib import Path
from harness.datasets.folder import DataFolder
from harness.errors import HarnessError
from harness.plugin_loader import kind

options = {"prompt": "{{ question }}", "columns": {"target": "answer"}, "checks": "exact_match"}
options |= eval(sys.argv[1])
try:
    task = kind("tasks").build("hub", options, data=DataFolder(Path("nowhere")))
    print(len(list(task.instances())), task.fingerprint()["revision"])
except HarnessError as error:
    print(type(error).__name__, error)
"""


def read(tmp_path: Path, endpoint: str, **options: Any) -> str:
    """What a process prints about a data set: the library reads HF_ENDPOINT when imported."""
    env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", READ, repr(options)]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_a_data_set_of_the_hub_is_downloaded_once_and_its_commit_recorded(
    tmp_path: Path, parquet: Path
) -> None:
    with hub_server(parquet) as (endpoint, requests):
        assert read(tmp_path, endpoint, dataset="some/sums") == f"4 {COMMIT}"
        files = [path for path in requests if path.endswith(".parquet")]
        assert files
        assert read(tmp_path, endpoint, dataset="some/sums", streaming=True) == f"4 {COMMIT}"
        requests.clear()
        assert read(tmp_path, endpoint, dataset="some/sums", split="test") == f"4 {COMMIT}"
        assert not [path for path in requests if path.endswith(".parquet")]


def test_a_data_set_that_cannot_be_had_is_an_error_with_a_remedy(
    tmp_path: Path, parquet: Path
) -> None:
    with hub_server(parquet) as (endpoint, _):
        gated = read(tmp_path, endpoint, dataset="gated/sums")
        assert gated == (
            "DataMissing The data set gated/sums on the Hub is gated. Accept its conditions at "
            f"{endpoint}/datasets/gated/sums, then log in: hf auth login"
        )
        missing = read(tmp_path, endpoint, dataset="missing/sums")
        assert missing.startswith("DataMissing There is no folder and no public data set")
        revision = read(tmp_path, endpoint, dataset="some/sums", revision="v9")
        assert "has no revision 'v9'" in revision
    closed = read(tmp_path, endpoint, dataset="some/sums")
    page = f"{endpoint}/datasets/some/sums"
    assert f"no folder 'some/sums', and {page} cannot be reached" in closed


def test_a_folder_that_is_not_there_is_no_name_on_the_hub() -> None:
    with pytest.raises(DataMissing, match="no folder and no public data set"):
        list(made("no/such/folder").instances())
