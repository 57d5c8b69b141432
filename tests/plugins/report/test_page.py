import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import DataInvalid, StoreFailed
from harness.plugins.report.parts import source_hash
from tests.plugins.report.pages import data, figure, reported_run, two_runs, write
from tests.report.attempts import attempt


def test_the_file_is_whole_and_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    text = write(folder / "report.html", two_runs(tmp_path)).read_text()
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    assert text.endswith("</html>\n")
    assert data(folder / "report.html", "overview")["made_at"] == "2026-11-21T12:00:00Z"


def test_the_same_report_is_the_same_file(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    first, second = (write(tmp_path / name, runs) for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()


def test_the_page_allows_its_own_scripts_alone(tmp_path: Path) -> None:
    text = write(tmp_path / "report.html", two_runs(tmp_path)).read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    told = policy[1].replace("&#39;", "'")
    for script in re.findall("<script>(.*?)</script>", text, re.S):
        assert source_hash(script) in told
    assert "unsafe" not in told
    assert "default-src 'none'" in told
    assert not re.search(r"""\son\w+=["']|\sstyle=["']|src=["']http|href=["']http""", text)


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt(f"sum/{number}") for number in range(30)])
    path = write(tmp_path / "report.html", [run], most_attempts=20)
    (told,) = data(path, "overview")["runs"]
    assert (told["included"], told["attempts"]) == (20, 30)


def test_marks_are_in_a_banner(tmp_path: Path) -> None:
    marks = ["SIMULATED", "INCOMPLETE 1 of 7"]
    run = reported_run(tmp_path, "run", [attempt("a")], marks=marks)
    told = data(write(tmp_path / "report.html", [run]), "overview")
    assert [(one["text"], one["runs"]) for one in told["marks"]] == [(m, ["run"]) for m in marks]
    assert told["marks"][0]["note"].startswith("The answers are made up")
    assert told["answer"]["sentence"].startswith("SIMULATED, INCOMPLETE 1 of 7: run passes 100%")


def test_a_run_of_no_attempts(tmp_path: Path) -> None:
    assert write(tmp_path / "report.html", [reported_run(tmp_path, "run", [])]).stat().st_size


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=r"Cannot write .*none.*Free some space.* -o"):
        write(tmp_path / "none" / "report.html", two_runs(tmp_path))
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreFailed, match="Cannot write"):
        write(tmp_path / "folder", two_runs(tmp_path))
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_that_cannot_be_read_leaves_no_file_and_the_old_one(tmp_path: Path) -> None:
    run = reported_run(tmp_path / "run", "run", [attempt("a"), attempt("b")])
    path = tmp_path / "report.html"
    path.write_text("old")
    text = run.index.path.read_bytes()
    run.index.path.write_bytes(text.replace(b'"outcome"', b'"outc\x00me"'))
    with pytest.raises(DataInvalid, match="not an attempt"):
        write(path, [run])
    assert path.read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "run"]


def test_a_report_may_have_a_name_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * 250}.html"
    assert write(path, [reported_run(tmp_path, "run", [attempt("a")])]).exists()


def test_a_report_of_no_runs(tmp_path: Path) -> None:
    text = write(tmp_path / "report.html", [], figures=[]).read_text()
    assert "<h1>A report</h1>\n<p>There are no runs.</p>" in text


def test_what_names_share_is_said_once(tmp_path: Path) -> None:
    names = [f"glue.{number}_shot" for number in range(3)]
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in names]
    path = write(tmp_path / "report.html", runs)
    told = data(path, "overview")
    assert told["prefix"] == "glue."
    assert [run["name"] for run in told["runs"]] == ["0_shot", "1_shot", "2_shot"]
    assert [run["full_name"] for run in told["runs"]] == names
    assert [run["name"] for run in data(path, "index")["runs"]] == ["0_shot", "1_shot", "2_shot"]
    assert told["comparison"]["baseline"] == "0_shot"


def test_without_javascript_there_are_the_answer_and_a_table(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    runs[0] = replace(runs[0], name="<b>\u202e", marks=["SIMULATED"])
    text = write(tmp_path / "report.html", runs, title="<i>\u202e\ud800").read_text()
    assert "<title>&lt;i&gt;⟨U+202E⟩⟨U+D800⟩</title>" in text
    found = re.search("<noscript>(.*?)</noscript>", text, re.S)
    assert found
    assert "after passes 67% of 12 samples of 6 instances" in found[1]
    assert '<th>&lt;b&gt;<span class="escape">⟨U+202E⟩</span> (SIMULATED)</th>' in found[1]
    assert "<td>67%</td><td>22-96%</td><td>12</td><td>$0.0240</td>" in found[1]


def test_charts_have_no_hidden_characters_but_texts_are_as_they_are(tmp_path: Path) -> None:
    picture = figure("results", [{"group": "a\u202e", "rate": 0.5}])
    told = data(write(tmp_path / "a.html", two_runs(tmp_path), figures=[picture]), "overview")
    (shown,) = [p for s in told["sections"] for p in s["parts"] if p["kind"] == "figure"]
    assert shown["chart"]["data"]["values"] == [{"group": "a⟨U+202E⟩", "rate": 0.5}]
    assert shown["table"]["rows"][0]["cells"][0]["text"] == "a\u202e"


def test_only_a_page_with_charts_has_their_library_and_themes(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    with_charts = write(tmp_path / "a.html", runs)
    assert data(with_charts, "themes").keys() == {"light", "dark"}
    assert with_charts.read_text().count("<script>") == 2
    without = write(tmp_path / "b.html", runs, figures=[]).read_text()
    assert 'id="themes"' not in without
    assert without.count("<script>") == 1
