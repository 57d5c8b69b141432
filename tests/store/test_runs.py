"""Names of runs: which are taken, how runs are found, and how they make room for new ones."""

from pathlib import Path

import pytest

from harness.errors import ConfigError, DataMissing, RunConflict
from harness.store.files import write_json
from harness.store.run_folder import RunFolder
from harness.store.runs import all_runs, find_run, find_runs, move_runs_aside, unused_base
from tests.store.test_run_folder import begun


def test_a_fresh_base_is_the_first_that_is_not_taken(tmp_path: Path) -> None:
    assert unused_base(tmp_path / "gone", "a") == "a"
    (tmp_path / "a").mkdir()
    assert unused_base(tmp_path, "a") == "a-2"
    (tmp_path / "a-2").touch()
    (tmp_path / "a-4").mkdir()
    assert unused_base(tmp_path, "a") == "a-3"
    assert unused_base(tmp_path, "b") == "b"


def test_all_runs_are_the_folders_with_a_config_or_attempts_by_name(tmp_path: Path) -> None:
    assert all_runs(tmp_path / "gone") == []
    for name in ("b", "a.variant", "a"):
        begun(tmp_path, name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "a (copy)").mkdir()
    (tmp_path / "a (copy)" / "config.yaml").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "attempts.jsonl").touch()
    assert [found.name for found in all_runs(tmp_path)] == ["a", "a.variant", "b", "damaged"]


def test_a_run_is_found_by_its_name_and_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun(tmp_path / "runs", "mine")
    for name in ("mine", "runs/mine", "runs/mine/", "./runs/mine", str(tmp_path / "runs" / "mine")):
        found = find_run(Path("runs"), name)
        assert found.name == "mine"
        assert found.exists()
    assert find_run(Path("elsewhere"), "runs/mine").exists()


def test_a_run_that_was_copied_into_the_current_folder_is_found_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_json(begun(tmp_path, "got").manifest, {})
    for name in ("./got", "got/", "./got/", "got/config.yaml", str(tmp_path / "got")):
        assert find_run(Path("runs"), name).path.resolve() == tmp_path / "got"
    with pytest.raises(DataMissing, match="no run 'got' in runs") as missing:
        find_run(Path("runs"), "got")
    assert missing.value.remedy.endswith("write ./got")
    write_json(begun(tmp_path / "runs", "got").manifest, {})
    assert find_run(Path("runs"), "got").path == Path("runs/got")
    assert find_run(Path("runs"), "./got").path.resolve() == tmp_path / "got"


def test_a_path_in_the_current_folder_is_a_runs_name_if_no_run_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun(tmp_path / "runs", "mine")
    (tmp_path / "mine").mkdir()
    assert find_run(Path("runs"), "./mine").path == Path("runs/mine")


def test_the_only_run_of_a_run_file_is_found_by_the_files_name(tmp_path: Path) -> None:
    write_json(begun(tmp_path, "eval.ifeval.gpt").manifest, {"variant": "ifeval.gpt"})
    begun(tmp_path, "quickstart.by-hand")
    assert find_run(tmp_path, "eval").name == "eval.ifeval.gpt"
    with pytest.raises(DataMissing, match="no run 'quickstart'"):
        find_run(tmp_path, "quickstart")
    write_json(begun(tmp_path, "eval.ifeval.claude").manifest, {"variant": "ifeval.claude"})
    with pytest.raises(DataMissing, match="no run 'eval'"):
        find_run(tmp_path, "eval")


def test_a_missing_run_gets_the_nearest_name_there_is(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"no run 'mine' in .*harness run configs/"):
        find_run(tmp_path, "mine")
    begun(tmp_path / "runs", "quickstart")
    with pytest.raises(DataMissing, match="Did you mean 'quickstart'"):
        find_run(tmp_path / "runs", "quikstart")
    with pytest.raises(DataMissing, match="Did you mean 'quickstart'") as caught:
        find_run(tmp_path / "elsewhere", str(tmp_path / "runs" / "quikstart"))
    assert str(tmp_path / "runs") in caught.value.message
    begun(tmp_path / "runs", "quickstart.small")
    begun(tmp_path / "runs", "tides.small")
    with pytest.raises(DataMissing, match=r"runs named 'tides.….*: tides\.small"):
        find_run(tmp_path / "runs", "tides")
    with pytest.raises(DataMissing, match="Did you mean 'tides'"):  # a run file's name
        find_run(tmp_path / "runs", "tds")


def test_runs_are_set_aside_under_a_dated_name(tmp_path: Path) -> None:
    for name, variant in (("a", ""), ("a.one", "one"), ("a.two", ""), ("b", "")):
        run = begun(tmp_path, name)
        write_json(run.manifest, {"variant": variant, "id": f"id-{name}"})
    with move_runs_aside(tmp_path, "a", [""]) as kept:
        assert kept[:4] == "a-20"
    names = {run.name for run in all_runs(tmp_path)}
    assert names == {kept, f"{kept}.one", "a.two", "b"}, "a.two is of a file named a.two.yaml"
    assert RunFolder(tmp_path, f"{kept}.one").run_id() == "id-a.one"
    assert RunFolder(tmp_path, "a.one").run_id() not in ("id-a.one", RunFolder(tmp_path, "a"))
    assert not RunFolder(tmp_path, "a").exists()
    with move_runs_aside(tmp_path, "new", [""]) as kept:
        assert kept == ""


def test_runs_get_their_names_back_if_no_new_one_starts(tmp_path: Path) -> None:
    run = begun(tmp_path, "a")
    write_json(run.manifest, {"id": "first"})
    with pytest.raises(ConfigError, match="no"), move_runs_aside(tmp_path, "a", [""]):
        raise ConfigError("no")
    assert [run.name for run in all_runs(tmp_path)] == ["a"]
    assert run.run_id() == "first"
    with (
        run.lock(),
        pytest.raises(RunConflict, match="Another process"),
        move_runs_aside(tmp_path, "a", [""]),
    ):
        pass
    assert [run.name for run in all_runs(tmp_path)] == ["a"]


def test_variants_that_the_file_no_longer_has_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def variant(name: str, at: float, *variants: str) -> None:
        sessions = [{"started_at": at}]
        found = {"variant": name, "variants": variants, "sessions": sessions, "started_at": at}
        write_json(begun(tmp_path, f"mine.{name}").manifest, found)

    def names(*, removed: bool = False) -> list[str]:
        return [run.name for run in find_runs(tmp_path, "mine", removed=removed)]

    variant("old", 1, "old", "b")
    variant("b", 2, "old", "b")
    assert names() == ["mine.old", "mine.b"]
    assert not caplog.messages
    variant("b", 3, "a", "b")
    variant("a", 4, "a", "b")
    begun(tmp_path, "mine.by-hand")
    assert names() == ["mine.a", "mine.b", "mine.by-hand"]
    assert caplog.messages[-1].startswith("Left out: mine.old. The file of 'mine' had no such")
    assert names(removed=True) == ["mine.a", "mine.b", "mine.by-hand", "mine.old"]
    variant("added", 5)  # by `harness eval`, which lists none
    assert len(names()) == 5


def test_the_variants_of_a_file_are_those_that_it_lists_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, name in enumerate("ab"):
        sessions = [{"started_at": number}]
        found = {"variant": name, "variants": [name], "sessions": sessions}
        write_json(begun(tmp_path, f"mine.{name}").manifest, found)
    assert find_run(tmp_path, "mine").name == "mine.b"  # the only variant when it was last run
    assert caplog.messages.pop().startswith("Left out: mine.a. ")
    for listed in (["mine.b", "mine.a"], ["mine.a"]):
        assert [run.name for run in find_runs(tmp_path, "mine", listed=listed)] == listed
    assert find_run(tmp_path, "mine", listed=["mine.a", "mine.c"]).name == "mine.a"
    assert caplog.messages[-1].startswith("Left out: mine.b. The file of 'mine' has no such")
    assert len(find_runs(tmp_path, "mine", removed=True)) == 2
    with pytest.raises(DataMissing, match=r"Name one of them: mine\.a, mine\.b"):
        find_run(tmp_path, "mine", listed=["mine.a", "mine.b"])
