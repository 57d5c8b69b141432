"""`harness data` as a user has it: fetch, killed and run again; ls; path."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.catalogue import catalogue
from tests.cli.command import begun, harness, mistake
from tests.datasets.file_server import FileServer
from tests.plugins.benchmarks.collie import originals

LOG = "gpt-4-multi-round-generation-1trial.json"


@pytest.fixture
def public(data_dir: Path) -> Iterator[FileServer]:
    files = {f"/collie/{name}": body for name, body in originals.collie(data_dir).items()}
    with FileServer(files) as server:
        yield server


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """An environment with a data folder that is not there yet."""
    return os.environ | {"HARNESS_DATA_DIR": str(tmp_path / "data")}


def test_a_fetch_that_is_killed_goes_on_and_ends_with_what_the_replay_needs(
    public: FileServer, data_dir: Path, tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    public.pace = 0.004  # about 2 MB a second
    process = begun("data", "fetch", "collie", "--from", public.url, env=elsewhere)
    part = tmp_path / "data" / "downloads" / "collie" / f"{LOG}.part"
    deadline = time.monotonic() + 60
    while not (part.is_file() and part.stat().st_size > 200_000):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "data" / "collie").exists()

    public.pace = 0.0
    public.requests.clear()
    ended = harness("data", "fetch", "collie", "--from", public.url, env=elsewhere)
    assert ended.returncode == 0, ended.stderr
    assert public.requests == [
        f"/collie/{LOG}",
        "/collie/vicuna-7b-1trial-no1-prompt.json",
    ]
    for product in catalogue()["collie"].products:
        fetched = tmp_path / "data" / product.path
        assert fetched.read_bytes() == (data_dir / product.path).read_bytes()
        assert str(fetched) in ended.stdout

    replay = ["run", "configs/replay_gpt4_collie.yaml", "--limit", "13"]
    runs = elsewhere | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    assert harness(*replay, env=runs).returncode == 0
    lines = (tmp_path / "runs/replay_gpt4_collie/attempts.jsonl").read_bytes().splitlines()
    assert len(lines) == 13 * 4

    public.requests.clear()
    again = harness("data", "fetch", "collie", "--from", public.url, env=elsewhere)
    assert "collie is already installed" in again.stderr
    assert again.stdout == ended.stdout
    assert public.requests == []


def test_a_wrong_hash_is_refused(
    public: FileServer, tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    dill = public.files["/collie/all_data.dill"]
    public.files["/collie/all_data.dill"] = dill.replace(b"generate", b"Generate", 1)
    said = mistake(harness("data", "fetch", "collie", "--from", public.url, env=elsewhere))
    assert "all_data.dill has the sha256" in said
    assert not (tmp_path / "data" / "collie").exists()
    public.files["/collie/all_data.dill"] = dill
    log = public.files[f"/collie/{LOG}"]
    public.files[f"/collie/{LOG}"] = log.replace(b"The history", b"Das history", 1)
    said = mistake(harness("data", "fetch", "collie", "--from", public.url, env=elsewhere))
    assert "collie/generations/gpt-4.jsonl gets the sha256" in said
    assert not (tmp_path / "data" / "collie" / "generations" / "gpt-4.jsonl").exists()
    public.files[f"/collie/{LOG}"] = log
    ended = harness("data", "fetch", "collie", "--from", public.url, env=elsewhere)
    assert ended.returncode == 0, ended.stderr


def test_offline_says_what_to_do(elsewhere: dict[str, str], tmp_path: Path) -> None:
    said = mistake(
        harness("data", "fetch", "collie", "--from", "http://127.0.0.1:9/", env=elsewhere)
    )
    assert "Connection refused" in said
    assert f"by hand to {tmp_path}/data/downloads/collie/all_data.dill" in said


def test_a_mistyped_name(elsewhere: dict[str, str]) -> None:
    assert "Did you mean 'collie'?" in mistake(harness("data", "fetch", "colie", env=elsewhere))
    assert "no data set 'nope'" in mistake(harness("data", "path", "nope", env=elsewhere))


def test_ls_shows_what_is_there_and_what_could_be(
    elsewhere: dict[str, str], tmp_path: Path
) -> None:
    ended = harness("data", "ls", env=elsewhere | {"COLUMNS": "200"})
    assert ended.returncode == 0, ended.stderr
    rows = {line.split()[0]: line for line in ended.stdout.splitlines() if line.strip()}
    assert {"collie", "punkt"} <= rows.keys()
    assert "6.8 MB" in rows["collie"]
    assert "https://github.com/princeton-nlp/Collie" in ended.stdout
    assert rows["collie"].split()[1] == "no"
    assert str(tmp_path / "data") in ended.stderr
    assert not (tmp_path / "data").exists()


def test_ls_on_a_narrow_terminal_cuts_nothing(elsewhere: dict[str, str]) -> None:
    said = harness("data", "ls", env=elsewhere | {"COLUMNS": "40"}).stdout
    assert "…" not in said
    assert all(len(line) <= 40 for line in said.splitlines())
    assert all(found.home in "".join(said.split()) for found in catalogue().values())


def test_ls_and_path_of_what_is_there(data_dir: Path) -> None:
    there = os.environ | {"HARNESS_DATA_DIR": str(data_dir), "COLUMNS": "200"}
    rows = harness("data", "ls", env=there).stdout.splitlines()
    assert any(row.split()[:2] == ["collie", "yes"] for row in rows)
    assert harness("data", "path", "collie", env=there).stdout == f"{data_dir}/collie\n"
    ended = harness("data", "fetch", "collie", env=there)  # it reads, and writes nothing
    assert "collie is already installed" in ended.stderr
    assert ended.returncode == 0


def test_path_prints_the_folder(elsewhere: dict[str, str], tmp_path: Path) -> None:
    assert harness("data", "path", env=elsewhere).stdout == f"{tmp_path}/data\n"
    said = mistake(harness("data", "path", "collie", env=elsewhere))
    assert "harness data fetch collie" in said


def test_what_a_data_set_asks_for() -> None:
    ended = harness("data", "describe", "wildifeval", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["n_tasks"], found["n_criteria"]) == (16, 61)
    assert sum(found["groups"].values()) == found["repeated"]["1"] == 61
    assert found["tasks_by_count"]["8"] == 1
    assert set(found["labels"]) == {"n_constraints", "domain"}
    shown = harness("data", "describe", "wildifeval", env=os.environ | {"COLUMNS": "80"})
    assert "Persona and Role" in shown.stdout
    assert "PMI" in shown.stdout
    assert "…" not in shown.stdout
    arguments = ("wildifeval", "--verbs", "--format", "markdown")
    assert "| verb | opening | anywhere |" in harness("data", "describe", *arguments).stdout


def test_sizes_and_lengths_of_a_data_set() -> None:
    def described(task: str) -> list[dict[str, list[Any]]]:
        tables: list[dict[str, list[Any]]] = json.loads(
            harness("data", "describe", task, "--format", "json").stdout
        )
        return tables

    structures, lengths = described("collie")
    assert structures["columns"] == ["structure", "builtin", "instances", "prompts"]
    assert ["pass01", 10, 10, 10] in structures["rows"]
    assert ["paragraphs per passage", 10, 2.3] in [row[:3] for row in lengths["rows"]]
    characters, words, keywords = described("concodeeval_generation")
    assert [row[1] for row in characters["rows"] + words["rows"]] == [62] * 10
    assert ["type", 62] in keywords["rows"]
    categories, lengths = described("natural_instructions")
    assert ["generation", 2, 24, 6, 4] in categories["rows"]
    assert ["Title", 6] in [row[:2] for row in lengths["rows"]]
    shown = harness("data", "describe", "natural_instructions", "--format", "markdown").stdout
    assert "| Instance, input | 72 | 8.75 |" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wildifevl",), "Did you mean 'wildifeval'?"),
        (("last_letter",), "cannot describe its data"),
        (("wildifeval", "-o", "dataset"), "is not an override"),
        (("wildifeval", "--map", "map.gif"), "does not end in"),
        (("wildifeval", "-o", "datset=builtin"), "Did you mean 'dataset'?"),
    ],
)
def test_mistakes_of_describe(arguments: tuple[str, ...], message: str) -> None:
    assert message in mistake(harness("data", "describe", *arguments))


def test_a_missing_dataset(tmp_path: Path) -> None:
    ended = harness(
        "run", "configs/quickstart.yaml", "-o", "task.dataset=v1",
        env=os.environ | {"HARNESS_DATA_DIR": str(tmp_path)},
    )  # fmt: skip
    assert "harness data fetch collie" in mistake(ended)


def test_an_unknown_format_is_refused_with_those_that_exist() -> None:
    ended = harness("data", "describe", "wildifeval", "--format", "html")
    assert ended.returncode == 2
    assert "'markdown'" in ended.stderr


def test_the_list_is_also_json() -> None:
    assert json.loads(harness("data", "ls", "--format", "json").stdout)


def test_a_mistyped_verb_names_the_nearest() -> None:
    ended = harness("data", "list")
    assert (ended.returncode, "Did you mean 'ls'?" in ended.stderr) == (2, True)
