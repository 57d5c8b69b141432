import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.config.run_file import RunFile
from harness.errors import ConfigError, RunConflict, StoreFailed, python_style
from harness.records import budget_account
from harness.store.files import write_atomically, write_json
from harness.store.run_folder import RunFolder, describe_change
from harness.store.runs import unused_base


def run(**changes: Any) -> RunFile:
    return RunFile.model_validate(
        {"task": {"name": "sums"}, "model": {"backend": "scripted", "name": "m"}} | changes
    )


def begun(root: Path, name: str) -> RunFolder:
    """A folder whose run has been begun."""
    folder = RunFolder(root, name)
    with folder.lock():
        folder.write_config(run())
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs", "mine")


# Names


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "/abs", ".hidden", "a b", "a" * 300])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a run") as caught:
        RunFolder(tmp_path, name)
    assert "--name" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


# The lock

HOLD = """
import sys, time
from pathlib import Path
from harness.store.run_folder import RunFolder
with RunFolder(Path(sys.argv[1]), "mine").lock():
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_process_holds_a_run_and_its_death_frees_it(folder: RunFolder) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.path.parent)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(RunConflict, match="Another process is working on the run 'mine'") as no,
            folder.lock(),
        ):
            pytest.fail("held twice")
        assert "--name" in no.value.remedy
        with RunFolder(folder.path.parent, "another").lock():
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        with folder.lock():
            pass


def test_a_run_is_not_held_twice_in_one_process_and_is_free_afterwards(folder: RunFolder) -> None:
    with folder.lock(), pytest.raises(RunConflict), RunFolder(folder.path.parent, "mine").lock():
        pytest.fail("held twice")
    with pytest.raises(ZeroDivisionError), folder.lock():
        raise ZeroDivisionError
    with folder.lock():
        pass


def test_holding_makes_the_folder_but_begins_no_run(folder: RunFolder) -> None:
    with folder.lock():
        assert folder.path.is_dir()
    assert not folder.exists()


def test_a_folder_that_cannot_be_made_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    (tmp_path / "mine").touch()
    for root in (tmp_path / "runs", tmp_path):
        with (
            pytest.raises(StoreFailed, match=r"Cannot write .*mine: (Not a|File exists)") as no,
            RunFolder(root, "mine").lock(),
        ):
            pytest.fail("held")
        assert "HARNESS_RUNS_DIR" in no.value.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_a_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with (
        pytest.raises(StoreFailed, match="Permission denied"),
        RunFolder(tmp_path, "mine").lock(),
    ):
        pytest.fail("held")
    tmp_path.chmod(0o000)
    for look in (lambda: RunFolder(tmp_path, "mine").exists(), lambda: unused_base(tmp_path, "x")):
        with pytest.raises(StoreFailed, match="Cannot read"):
            look()
    tmp_path.chmod(0o700)


# The configuration


def test_the_config_comes_back_as_it_was_written(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    text = run(
        model={"backend": "openai", "name": "1e3", "base_url": "http://h/v1", "flag": "yes"},
        decoding={"temperature": 1e-7, "stop": ["\n", "é", "\x85", "😀", "null"]},
        seed=None,
    )
    folder.write_config(text)
    assert folder.exists()
    assert folder.read_config() == text


plain = st.text(st.characters(exclude_categories=["Cs"]))
option_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=25)
@given(
    plain, plain, st.dictionaries(plain, option_values, max_size=3), st.lists(plain.filter(bool))
)
def test_any_config_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    backend: str,
    name: str,
    options: dict[str, Any],
    stop: list[str],
) -> None:
    folder = RunFolder(tmp_path_factory.getbasetemp(), "any_config")
    folder.path.mkdir(exist_ok=True)
    try:
        made = run(model=options | {"backend": backend, "name": name}, decoding={"stop": stop})
    except ValidationError:
        return
    folder.write_config(made)
    assert folder.read_config() == made


def test_a_run_continues_as_itself_and_as_more_of_itself(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.write_config(run(samples=2))
    write_json(folder.manifest, {"fingerprint": {"dataset": "abc"}})
    for now in (run(samples=2), run(samples=4, limits={"concurrency": 3}), run(samples=4)):
        assert not any(folder.differences(now, {"dataset": "abc", "a later version's": "x"}))


def test_a_run_does_not_continue_as_another_one(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.write_config(run(samples=2))
    found = folder.differences(run(samples=1, seed=9), {}).conflict_error("mine")
    values = "samples (2, now 1), seed (0, now 9)"
    assert found.message == f"The run 'mine' was started with different values: {values}."
    assert "--fresh. This one is then kept under a dated name" in found.remedy
    assert "--rescore" not in found.remedy
    with python_style():
        found = folder.differences(run(samples=1), {}).conflict_error("mine", rescorable=True)
    assert "Or name='NEW'." in found.remedy
    assert "rescore=True" in found.remedy


def test_a_run_does_not_continue_on_other_data(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.write_config(run())
    before = {"dataset": "abc", "dataset_sha256": "1", "./mine.py_sha256": "1"}
    assert not any(folder.differences(run(), before))  # killed before its manifest was written
    write_json(folder.manifest, {"fingerprint": before})
    found = folder.differences(run(), {"dataset": "def", "dataset_sha256": "2"})
    other = "another version of dataset (abc, now def), the data."
    assert found.conflict_error("mine").message == f"The run 'mine' was made with {other}"
    found = folder.differences(run(), {**before, "./mine.py_sha256": "2"})
    assert "another version of ./mine.py." in found.conflict_error("mine").message


@pytest.mark.parametrize("content", ["", "samples: [", "sampels: 3", "\x00"])
def test_a_damaged_config_is_named(folder: RunFolder, content: str) -> None:
    folder.path.mkdir(parents=True)
    folder.config.write_text(content)
    with pytest.raises(ConfigError, match=r"mine/config\.yaml"):
        folder.differences(run(), {})


# JSON files


def test_a_manifest_that_is_not_there_is_empty(folder: RunFolder) -> None:
    assert folder.read_manifest() == {}


def test_json_files_come_back_and_can_be_read_by_people(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    content = {"a": [1, None, "ä"], "b": {"c": 0.5}}
    write_json(folder.manifest, content)
    assert folder.read_manifest() == content
    assert "\n  " in folder.manifest.read_text()


def test_a_cost_just_below_zero_is_read_and_a_negative_one_is_damage(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.spending.write_text('{"session": "s", "usd": -3.5e-18}')  # as earlier versions wrote it
    assert folder.read_spending().usd == pytest.approx(0)
    folder.spending.write_text('{"session": "s", "usd": -0.01}')
    with pytest.raises(StoreFailed, match=r"spending\.json is damaged"):
        folder.read_spending()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"a": "\xff"}', b'{"a": ' + b"[" * 100_000]
)
def test_a_damaged_json_file_is_named(folder: RunFolder, content: bytes) -> None:
    folder.path.mkdir(parents=True)
    folder.manifest.write_bytes(content)
    with pytest.raises(StoreFailed, match=r"manifest\.json is damaged.*Restore it, or"):
        folder.read_manifest()


def test_a_json_file_that_cannot_be_read_is_named(folder: RunFolder) -> None:
    folder.manifest.mkdir(parents=True)
    with pytest.raises(StoreFailed, match=r"Cannot read .*manifest\.json: Is a directory"):
        folder.read_manifest()


# Whole files


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size: to a writer, a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # else Python writes truncated bytecode of what is imported
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = bytecode


def test_a_full_disk_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    write_atomically(file, b"old")
    with largest_file(10), pytest.raises(StoreFailed, match=r"Cannot write .*: File too large"):
        write_atomically(file, b"new" * 1000)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"


def test_a_file_that_cannot_be_replaced_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(StoreFailed, match=r"Cannot write .*taken"):
        write_atomically(tmp_path / "taken", b"new")
    with pytest.raises(StoreFailed, match=r"Cannot write .*file"):
        write_atomically(tmp_path / "gone" / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


REWRITE = """
import sys
from pathlib import Path
from harness.store.files import write_atomically
contents = [letter * 300_000 for letter in (b"a", b"b")]
print("begun", flush=True)
while True:
    for content in contents:
        write_atomically(Path(sys.argv[1]), content)
"""


def test_a_kill_leaves_the_old_content_or_the_new(tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    write_atomically(file, b"a" * 300_000)
    for pause in (0.003, 0.02):
        with subprocess.Popen(
            [sys.executable, "-c", REWRITE, str(file)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(pause)
            except subprocess.TimeoutExpired:
                process.kill()
        content = file.read_bytes()
        assert content in (b"a" * 300_000, b"b" * 300_000)


@pytest.mark.parametrize(
    "text", ['{"sessions": 3}', '{"sessions": [1]}', '{"fingerprint": []}', '{"owed": "two"}', "[]"]
)
def test_a_manifest_that_cannot_be_one_is_told(tmp_path: Path, text: str) -> None:
    folder = RunFolder(tmp_path, "run")
    folder.path.mkdir()
    folder.manifest.write_text(text)
    with pytest.raises(StoreFailed, match="is damaged"):
        folder.read_manifest()


def test_a_whole_section_that_differs_is_named_without_its_settings() -> None:
    assert describe_change("judges", {}, {"polite": {"name": "yes_no"}}) == "judges"
    assert describe_change("seed", 0, 9) == "seed (0, now 9)"


def test_a_manifest_of_a_newer_version_is_refused(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    write_json(folder.manifest, {"schema_version": 2, "samples": "of another shape"})
    newer = r"manifest\.json: schema version 2 is newer than 1, which this harness knows"
    with pytest.raises(StoreFailed, match=newer) as caught:
        folder.read_manifest()
    assert "Use the version of the harness that wrote it" in caught.value.remedy


def test_metrics_of_a_newer_version_are_never_written_over(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    write_json(folder.metrics, {"schema_version": 2})
    newer = r"metrics\.json: schema version 2 is newer than 1"
    with pytest.raises(StoreFailed, match=newer), folder.lock():
        pass
    for content in ({}, {"schema_version": 1}, []):  # damaged ones are written again
        write_json(folder.metrics, content)
        with folder.lock():
            pass


def test_a_folder_in_the_place_of_the_attempts_is_a_message(folder: RunFolder) -> None:
    folder.attempts.mkdir(parents=True)
    folder.write_config(run())
    with pytest.raises(StoreFailed, match=r"Cannot read .*attempts\.jsonl: Is a directory"):
        folder.has_attempts()


def test_a_folder_that_is_deleted_and_made_again_is_another_run_with_the_same_account(
    folder: RunFolder,
) -> None:
    first, second = folder.run_id(), folder.run_id()
    assert first != second
    assert budget_account(first) == budget_account(second)
    folder.path.mkdir(parents=True)
    write_json(folder.manifest, {"id": first})
    assert folder.run_id() == first
    write_json(folder.manifest, {"id": budget_account(first)})  # of an earlier version
    assert folder.run_id() == budget_account(folder.run_id()) == budget_account(first)


def test_options_of_earlier_versions_that_are_now_keys_of_the_section_are_not_read(
    folder: RunFolder,
) -> None:
    folder.path.mkdir(parents=True)
    folder.write_config(run())
    tree = yaml.safe_load(folder.config.read_text())
    for options in ({"cache": True, "version": 3}, {"cache": "disk", "version": None}):
        folder.config.write_text(yaml.safe_dump(tree | {"model": tree["model"] | options}))
        section = folder.read_config().model
        assert (section.cache, section.version) == (None, None)
    folder.config.write_text(yaml.safe_dump(tree | {"model": tree["model"] | {"cache": False}}))
    assert folder.read_config().model.cache is False


def test_a_damaged_list_of_judges_is_refused(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.write_config(run())
    tree = yaml.safe_load(folder.config.read_text())
    folder.config.write_text(yaml.safe_dump(tree | {"judges": [3]}))
    with pytest.raises(ConfigError, match=r"judges"):
        folder.read_config()
