"""`harness report`: the page and the pictures as a user makes them, and what it must refuse."""

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import harness, mistake
from tests.installed import install_plugin
from tests.plugins.report.pages import data

QUICK = ("run", "configs/quickstart.yaml", "--limit", "26", "--name")


def on(runs: Path, **more: str) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs)} | more


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    for name, option in (("weak", "model.accuracy=0.2"), ("strong", "model.accuracy=0.9")):
        ended = harness(*QUICK, name, "-o", option, env=on(runs))
        assert ended.returncode == 0, ended.stderr
    return runs


def test_of_one_run_it_is_in_the_runs_folder(quick: Path) -> None:
    ended = harness("report", "weak", env=on(quick))
    assert ended.returncode == 0, ended.stderr
    page = quick / "weak" / "report.html"
    assert str(page) in ended.stderr
    told, fewer = data(page, "overview"), quick / "fewer.html"
    for replaced in (False, True):
        ended = harness("report", "weak", "-o", fewer, "--attempts", "0", env=on(quick))
        assert ended.returncode == 0, ended.stderr
        assert ("(it replaces an earlier one)" in ended.stderr) == replaced
    assert fewer.stat().st_size < page.stat().st_size
    assert told["answer"]["sentence"].startswith("SIMULATED: weak passes ")
    assert "every sentence begins with" in told["groups"]["structure"]["para01"]
    titles = [part.get("title", "") for one in told["sections"] for part in one["parts"]]
    assert "Pass rate of first answers by structure (SIMULATED)" in titles
    text = re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL)
    assert "http://" not in text


def test_of_several_it_compares_them_and_is_here(quick: Path, tmp_path: Path) -> None:
    arguments = ("weak", "strong", "--title", "Two <b>models</b>", "--by", "source")
    ended = harness("report", *arguments, env=on(quick), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    page = tmp_path / "report.html"
    assert "<h1>Two &lt;b&gt;models&lt;/b&gt;</h1>" in page.read_text()
    told = data(page, "overview")
    assert told["title"] == "Two <b>models</b>"
    titles = [part.get("title", "") for one in told["sections"] for part in one["parts"]]
    assert "strong against weak, by source" in titles


def test_only_figures_as_files_need_the_extra(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # type: ignore[arg-type]  # as if absent
    ended = harness("report", "weak", "strong", env=on(quick), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    told = data(tmp_path / "report.html", "overview")
    parts = [part for one in told["sections"] for part in one["parts"]]
    assert "By structure" in [part.get("title") for part in parts]
    assert "figure" in {part["kind"] for part in parts}
    ended = harness("report", "weak", "--images", tmp_path, env=on(quick))
    assert ended.returncode == 1
    assert "This needs the package 'vl_convert': pip install" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_the_pictures_as_files(form: str, quick: Path, tmp_path: Path) -> None:
    folder, page = tmp_path / "pictures", tmp_path / "report.html"
    page.write_text("not a report")  # is not touched
    runs = ("weak", "strong") if form == "svg" else ("weak",)
    arguments = (*runs, "--images", str(folder), "--format", form)
    ended = harness("report", *arguments, env=on(quick), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {f"rate_by_structure.{form}", f"outcomes.{form}"} <= set(found)
    assert (f"comparison.{form}" in found) is (len(runs) > 1)
    begin = {"svg": b"<svg", "pdf": b"%PDF"}[form]
    assert all(content.startswith(begin) for content in found.values())
    assert page.read_text() == "not a report"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("weka",), "no run 'weka'"),
        (("weak", "weak"), "'weak' is named twice"),
        (("weak", "strong", "--by", "structur"), "no label 'structur'"),
        (("weak", "strong", "--baseline", "x"), "is not one of the runs"),
        (("weak", "-o", "no/such/folder/report.html"), "there is no folder"),
        (("weak", "-o", "README.md"), "exists and is not a report"),
        (("weak", "--by", "structure"), "cannot be compared"),
        (("weak", "strong", "--round", "9"), "None of the runs has a round 9"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], said: str, quick: Path) -> None:
    assert said in mistake(harness("report", *arguments, env=on(quick)))


def test_a_runs_own_files_are_never_written_over(quick: Path) -> None:
    attempts = quick / "weak" / "attempts.jsonl"
    before = attempts.read_bytes()
    said = mistake(harness("report", "weak", "-o", attempts, env=on(quick)))
    assert "a run's own file" in said
    assert attempts.read_bytes() == before
    link = quick / "link.html"
    link.symlink_to(attempts)
    assert "a run's own file" in mistake(harness("report", "weak", "-o", link, env=on(quick)))
    assert attempts.read_bytes() == before


def test_the_variants_of_a_file_by_its_name(tmp_path: Path) -> None:
    variants = "variants={one: {}, two: {model.accuracy: 1.0}}"
    assert harness(*QUICK, "both", "-o", variants, env=on(tmp_path)).returncode == 0
    page = tmp_path / "both.html"
    ended = harness("report", "both", "-o", page, "--round", "1", env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    told = data(page, "overview")
    assert any("first answers, run minus baseline" in one for one in told["method"])
    (row,) = told["comparison"]["rows"]
    groups = next(part for one in told["sections"] if one["id"] == "comparison"
                  for part in one["parts"] if part["kind"] == "table")  # fmt: skip
    links = [cell["href"] for one in groups["rows"] for cell in one["cells"] if "href" in cell]
    assert row["better"] > 0
    assert links
    assert all(link.endswith("&round=1") for link in links)


def test_all_pairs_and_the_rankings_of_four_runs(tmp_path: Path) -> None:
    accuracies = {f"m{n}": {"model.accuracy": n / 10} for n in (2, 4, 6, 8)}
    variants = f"variants={json.dumps(accuracies)}"
    assert harness(*QUICK, "four", "-o", variants, env=on(tmp_path)).returncode == 0
    ended = harness("report", "four", "--images", tmp_path / "images", env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    pairs = (tmp_path / "images" / "pairs.svg").read_text()
    assert "Difference in pass rate, row minus column (SIMULATED)" in pairs
    rankings = (tmp_path / "images" / "rankings.svg").read_text()
    assert "Similarity of the rankings of the 4 runs (SIMULATED)" in rankings


def test_runs_of_several_tasks_are_not_compared(quick: Path) -> None:
    other = ("run", "configs/natural_instructions_builtin.yaml", "--limit", "6", "--name", "ni")
    assert harness(*other, env=on(quick)).returncode == 0
    page = quick / "several.html"
    ended = harness("report", "weak", "ni", "-o", page, env=on(quick))
    assert ended.returncode == 0, ended.stderr
    told = data(page, "overview")
    assert ": not compared: weak passes " in told["answer"]["sentence"]
    texts = [part.get("text", "") for one in told["sections"] for part in one["parts"]]
    assert any("on the data set builtin" in text for text in texts)
    baseline = ("report", "weak", "ni", "--baseline", "weak", "-o", page)
    assert "different tasks" in mistake(harness(*baseline, env=on(quick)))


def test_a_run_without_attempts_has_no_report(quick: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("config.yaml", "manifest.json"):
        (empty / name).write_bytes((quick / "weak" / name).read_bytes())
    assert "has no attempts" in mistake(harness("report", "empty", env=on(tmp_path)))
    (tmp_path / "weak").symlink_to(quick / "weak")
    both = harness("report", "weak", "empty", "-o", tmp_path / "page.html", env=on(tmp_path))
    assert "Not in the report, since they have no attempts: empty." in both.stderr
    assert both.returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="as root no folder is unwritable")
def test_an_unwritable_folder_for_pictures(quick: Path, tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    said = mistake(harness("report", "weak", "--images", tmp_path / "p", env=on(quick)))
    assert "Cannot write" in said


def test_a_case_has_its_reference_what_was_scored_and_what_the_judge_said(tmp_path: Path) -> None:
    rows, check = tmp_path / "rows.jsonl", tmp_path / "check.py"
    row = {"id": "oslo", "prompt": "Where?", "target": "Oslo", "criteria": ["It is short."]}
    rows.write_text(f"{json.dumps(row)}\n")
    simulated = {"backend": "simulated", "accuracy": 1}
    task = {"name": "jsonl", "path": str(rows), "extract": {"regex": r"is (\w+)"},
            "gold": "It is Oslo", "checks": ["exact_match"]}  # fmt: skip
    judge = {"name": "yes_no", "as": "brief", "votes": 2, "model": simulated}
    run = {"task": task, "model": simulated, "judges": [judge]}
    file, page = tmp_path / "one.yaml", tmp_path / "one.html"

    def entry() -> dict[str, Any]:
        assert harness("report", "one", "-o", page, env=on(tmp_path)).returncode == 0
        found: dict[str, Any] = data(page, "chunk-0")[0]
        return found

    file.write_text(json.dumps(run))
    assert harness("run", file, env=on(tmp_path)).returncode == 0
    told = entry()
    (attempt,) = told["attempts"]
    assert told["references"] == ["It is Oslo"]
    assert attempt["extracted"] == "Oslo"
    (strict,) = [score for score in attempt["scores"] if score["name"] == "brief.strict"]
    assert strict["constraints"] == [["It is short.", True, "", "", "2 of 2 yes"]]
    replies = [["It is short.", "Yes"]] * 2
    assert attempt["judges"] == [{"name": "brief", "replies": replies}]
    assert data(page, "index")["runs"][0]["judges"] == {"brief": "yes_no, simulated"}

    rows.write_text(rows.read_text().replace("Where?", "Where is it?"))
    assert "references" not in entry()  # the data set has changed

    check.write_text(
        f"open({str(tmp_path / 'executed')!r}, 'a').close()\ndef check(text): return True\n"
    )
    run["task"] = task | {"checks": [str(check)]}
    file.write_text(json.dumps(run))
    assert harness("run", file, "--fresh", "--name", "one", env=on(tmp_path)).returncode == 0
    (tmp_path / "executed").unlink()
    assert "references" not in entry()
    assert not (tmp_path / "executed").exists()  # a report must not execute what a run names


def test_scores_at_the_limits_are_shown(tmp_path: Path) -> None:
    (tmp_path / "size.py").write_text("def size(text): return 1e100 if 'a' in text else -1e100\n")
    rows = "[{id: a, prompt: Say a., target: a}, {id: b, prompt: Say b., target: b}]"
    file = tmp_path / "mine.yaml"
    file.write_text(f"task: {{rows: {rows}, checks: [./size.py]}}\nmodel: simulated/1\n")
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    assert harness("run", file, env=env).returncode == 0
    ended = harness("report", "mine", "-o", str(tmp_path / "page.html"), env=env)
    assert ended.returncode == 0, ended.stderr


SECTION = """
from harness.plugins.report.runs import ReportSection

class Lengths(ReportSection):
    def {method}:
        {statement}
"""


@pytest.mark.parametrize(
    ("method", "statement", "error"),
    [
        ("__init__(self, *_)", "raise ValueError('no rows')", "ValueError: no rows; third.py"),
        ("tables(self, run)", "yield run.absent", "AttributeError: "),
        ("tables(self, run)", "yield (1, 2)", "TypeError: a tuple is no Table nor a Note"),
        ("figures(self)", "yield 3", "TypeError: a int is no Figure"),
        ("judge_note(self, judge)", "pass", ""),
    ],
)
def test_a_section_that_fails_is_named_and_takes_nothing_with_it(
    quick: Path, tmp_path: Path, method: str, statement: str, error: str
) -> None:
    code = SECTION.format(method=method, statement=statement)
    members = {"report_sections": {"lengths": "Lengths"}}
    install_plugin(tmp_path, code, members, fields="requires=('report',)")
    page = tmp_path / "report.html"
    ended = harness("report", "weak", "-o", page, env=on(quick, PYTHONPATH=str(tmp_path)))
    assert ended.returncode == 0, ended.stderr
    sections = {one["title"]: one["parts"] for one in data(page, "overview")["sections"]}
    assert "Cost and time" in sections
    said = f"The section 'lengths' of third failed ({error}"
    assert (said in ended.stderr) == bool(error)
    assert ("Lengths" in sections) == bool(error)
    if error:
        assert ended.stderr.count(said) == 1
        assert said in sections["Lengths"][-1]["text"]


def test_a_broken_declaration_is_reported_once(quick: Path, tmp_path: Path) -> None:
    install_plugin(tmp_path, "", {}, fields="report_section={}")
    page = tmp_path / "report.html"
    ended = harness("report", "weak", "-o", page, env=on(quick, PYTHONPATH=str(tmp_path)))
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("The plug-in 'third' from third cannot be loaded (TypeError: ") == 1
    assert "report_section" in ended.stderr
    assert "third_declaration.py, line 2" in ended.stderr


def test_a_failed_section_shows_no_key(quick: Path, tmp_path: Path) -> None:
    statement = "import os; raise ValueError(os.environ['OPENAI_API_KEY'])"
    code = SECTION.format(method="tables(self, run)", statement=statement)
    install_plugin(tmp_path, code, {"report_sections": {"lengths": "Lengths"}})
    page = tmp_path / "report.html"
    environment = on(quick, PYTHONPATH=str(tmp_path), OPENAI_API_KEY="sk-canary-1234567890")
    ended = harness("report", "weak", "-o", page, env=environment)
    assert ended.returncode == 0, ended.stderr
    overview = json.dumps(data(page, "overview"))
    assert "The section 'lengths' of third failed" in overview
    assert "canary" not in overview + ended.stderr
