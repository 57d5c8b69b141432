import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced

from harness.analysis.metrics import JudgeFacts
from harness.errors import DataInvalid, StoreFailed
from harness.records import Score
from harness.report.html import page
from harness.report.html.inline import source_hash
from tests.report.html.pages import attempt, reported_run, two_runs, write


def test_the_file_is_whole_and_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    text = write(folder / "report.html", two_runs(tmp_path)).read_text()
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    assert text.endswith("</html>\n")
    assert "2026-11-21 12:00 UTC" in text


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
    text = write(tmp_path / "report.html", [run], most_attempts=20).read_text()
    assert "20 of 30 attempts are in this page" in text


def test_marks_are_in_a_banner(tmp_path: Path) -> None:
    marks = ["SIMULATED", "INCOMPLETE 1 of 7"]
    run = reported_run(tmp_path, "run", [attempt("a")], marks=marks)
    text = write(tmp_path / "report.html", [run]).read_text()
    banner = re.search('<div class="banner".*?</div>', text, re.S)
    assert banner
    assert all(mark in banner[0] for mark in marks)


def test_the_reasons_of_failure_are_a_table(tmp_path: Path) -> None:
    attempts = [attempt("once", scores={"exact": Score(False, False, "seldom")}, passed=False)]
    for number in range(3):
        scores = {"exact": Score(False, False, f"{number} words, 9 wanted")}
        attempts.append(attempt(f"sum/{number}", scores=scores, passed=False))
    runs = [
        reported_run(tmp_path / "a", "one", attempts),
        reported_run(tmp_path / "b", "two", [attempt("once", passed=False)]),
    ]
    text = write(tmp_path / "report.html", runs, figures=[]).read_text()
    [caption, table] = re.findall(r"<caption>([^<]*failed)</caption>(.*?)</table>", text, re.S)[0]
    said = " ".join(re.sub("<[^>]*>", " ", table).split())
    assert caption == "Why attempts failed"
    assert said == "run failed outcome why one 3 ok N words, N wanted one 1 ok seldom"


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


def test_every_asset_is_read_from_the_package() -> None:
    folder = files("harness.report.html") / "assets"
    named = {*page._STYLES, *page._SCRIPTS, "report.html.j2", "tables.html.j2"}
    named |= {"study.css", "study.html.j2"}  # of the page of a study
    assert {each.name for each in folder.iterdir()} == named


def test_a_report_of_no_runs(tmp_path: Path) -> None:
    text = write(tmp_path / "report.html", [], figures=[]).read_text()
    assert ">A report</h1>" in text


def test_what_names_share_is_said_once(tmp_path: Path) -> None:
    names = [f"glue.{number}_shot" for number in range(6)]
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in names]
    text = write(tmp_path / "report.html", runs).read_text()
    assert re.search(r"Common prefix of the runs.*>glue\.</span>", text)
    assert text.count('<th scope="row" title="glue.3_shot">') == 1
    assert len(re.findall(r'<th scope="(?:row|col)"[^>]*>\s*glue\.', text)) == 0
    folded = re.findall("<details>(.*?)</details>", text, re.S)
    assert sum("by shape" in each for each in folded) == 1


def test_runs_with_unequal_chances_are_warned_of(tmp_path: Path) -> None:
    text = write(tmp_path / "report.html", two_runs(tmp_path)).read_text()
    assert re.search('<p class="warning" role="note">The runs have 1 and 2 rounds; ', text)
    one = [reported_run(tmp_path / "one", "one", [attempt("a")])]
    assert '<p class="warning"' not in write(tmp_path / "one.html", one).read_text()


def test_a_judge_of_the_models_own_family_is_told(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a")])
    judges = {"j": JudgeFacts(model="gpt-4", family="OpenAI"), "k": JudgeFacts(model="k")}
    run = replace(run, metrics=replaced(run.metrics, judges=judges))
    text = write(tmp_path / "report.html", [run]).read_text()
    assert "Reference answers" not in text
    (told,) = re.findall('<p class="note">.*self-preference.*</p>', text)
    assert "the judge &#39;j&#39; asks gpt-4, of the model&#39;s own family (OpenAI)." in told
