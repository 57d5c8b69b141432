"""The files that `harness init` writes, run from any folder."""

from pathlib import Path

from tests.cli.command import harness, mistake
from tests.cli.test_run_files import on


def test_a_run_file_finds_its_rows_and_check_from_any_folder(tmp_path: Path) -> None:
    harness("init", "deep/mine", cwd=tmp_path)
    mine, elsewhere = tmp_path / "deep" / "mine", tmp_path / "deep"
    for folder, file in (
        (elsewhere, "mine/my_run.yaml"),
        (mine, "my_run.yaml"),
        (tmp_path, mine / "my_run.yaml"),
    ):
        ended = harness("run", file, cwd=folder, env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
    scored = harness("score", "my_run.plain", cwd=elsewhere, env=on(tmp_path))
    assert scored.returncode == 0, scored.stderr
    (elsewhere / "my_rows.jsonl").write_text(
        '{"id": "x", "topic": "x", "most_words": 9, "gold": "x."}\n'
    )
    refused = mistake(harness("run", "mine/my_run.yaml", cwd=elsewhere, env=on(tmp_path)))
    assert "There are two different files 'my_rows.jsonl'" in refused
    assert "Write the full path of the file that you mean." in refused


def test_nothing_is_left_of_a_run_whose_rows_are_refused(tmp_path: Path) -> None:
    harness("init", cwd=tmp_path)
    rows = tmp_path / "my_rows.jsonl"
    good = rows.read_text()
    rows.write_text(f'{good}{{"id": "tides", "topic": "x", "most_words": 9, "gold": "x."}}\n')
    refused = mistake(harness("run", "my_run.yaml", cwd=tmp_path, env=on(tmp_path)))
    assert "the id 'tides' occurs twice" in refused
    assert not list((tmp_path / "runs").glob("*"))
    rows.write_text(good)
    assert harness("run", "my_run.yaml", cwd=tmp_path, env=on(tmp_path)).returncode == 0
    rows.write_text(f"{good}nonsense\n")
    mistake(harness("run", "my_run.yaml", cwd=tmp_path, env=on(tmp_path)))
    assert (tmp_path / "runs/my_run.plain/attempts.jsonl").read_text(), "a run that had begun stays"
