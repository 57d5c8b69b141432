import os
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replaced

from harness.analysis.metrics import ReferenceScore, encode_metrics
from harness.analysis.summary import compute_metrics
from harness.plugins.comparisons.comparison_document import captions
from harness.plugins.comparisons.run_comparison import ComparisonOptions
from harness.plugins.report.runs import Reported, references, report_on, sample_seconds, shortened
from harness.report.table import Table
from harness.store.attempt_lines import AttemptLines
from harness.store.files import write_atomically, write_json
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.run_folder import RunFolder
from tests.conftest import run_file
from tests.plugins.report.pages import compared, reported_run
from tests.report.attempts import attempt
from tests.store.test_index import attempt as stored_attempt


def texts(table: Table | None) -> list[list[str]]:
    assert table
    return [[column.heading for column in table.columns], *map(table.texts, table.rows)]


def test_golds_stand_beside_each_runs_own_answers(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a")])
    assert references([run]) is None
    found = ReferenceScore(
        mean=7.5, stderr=0.25, n=9, n_clusters=9, n_pairs=8, n_pair_clusters=8,
        difference=-0.5, difference_stderr=0.125, difference_ci95=(-0.75, -0.25),
    )  # fmt: skip
    run = replace(run, metrics=replaced(run.metrics, references={"j.score": found}))
    ((*_, row),) = [texts(references([run]))]
    assert row == ["run", "j.score", "9", "7.500 ± 0.250", "8", "-0.500 ± 0.125",
                   "-0.750 to -0.250"]  # fmt: skip


def test_a_quick_report_of_a_file_that_is_still_read_has_the_runs_saved_figures(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path, "run")
    reported_run(folder.path, "run", [attempt("a"), attempt("b"), attempt("c", passed=False)])
    write_json(folder.manifest, {"schema_version": 1, "run": "run", "task": "sums"})
    folder.write_config(run_file())
    lines = AttemptLines(folder.attempts, "followed")
    assert lines.read_more(1)
    part = AttemptIndex(folder.attempts, lines=lines)
    assert len(part) < 3

    def rate() -> tuple[float | None, int]:
        (run,) = report_on([folder], ComparisonOptions(score=""), indexes=[part], quick=True).runs
        return run.metrics.overall.pass_rate, run.metrics.overall.n

    assert rate() == (1, len(part))  # of the part
    write_atomically(folder.metrics, encode_metrics(compute_metrics(folder)))
    assert rate() == (2 / 3, 3)
    later = folder.metrics.stat().st_mtime + 1
    os.utime(folder.attempts, (later, later))  # a run goes on
    assert rate() == (1, len(part))


def test_a_run_may_go_on_from_anothers_answers(tmp_path: Path) -> None:
    first = [attempt("a"), attempt("b", passed=False)]
    lines = {
        "plain": first,
        "feedback": [*first, attempt("b", 0, 2)],
        "other": [replaced(one, text="another answer") for one in first],
    }
    folders = [RunFolder(tmp_path, name) for name in lines]
    for folder, name in zip(folders, lines, strict=True):
        reported_run(folder.path, name, lines[name])
        write_json(folder.manifest, {"schema_version": 1, "run": name, "task": "sums"})
        folder.write_config(run_file())
    options = ComparisonOptions(score="")
    feedback, other = report_on(folders, options).comparison.others
    told = (feedback.overall.shared, feedback.overall.method, feedback.overall.p_value)
    assert told == (2, "shared replies", None)
    assert (other.overall.shared, other.overall.p_value) == (0, 1.0)


def test_failed_calls_are_no_replies_that_runs_share(tmp_path: Path) -> None:
    failed = {"passed": None, "outcome": "error", "text": None, "scores": {}}
    folders = [RunFolder(tmp_path, name) for name in ("one", "two")]
    for folder in folders:
        reported_run(folder.path, folder.name, [attempt(name, **failed) for name in "ab"])
        write_json(folder.manifest, {"schema_version": 1, "run": folder.name, "task": "sums"})
        folder.write_config(run_file())
    found = report_on(folders, ComparisonOptions(score="")).comparison
    assert (found.others[0].overall.shared, found.others[0].overall.bounds) == (0, None)
    said = " ".join(captions(found))
    assert "Nothing can be compared: two and one have no judged instance in common." in said
    assert "replies" not in said


def test_runs_and_their_comparison_lose_it(tmp_path: Path) -> None:
    names = ["glue.zero", "glue.four"]
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in names]
    short = shortened(Reported(runs, compared(runs)))
    assert [run.name for run in short.runs] == ["zero", "four"]
    assert short.comparison
    assert (short.comparison.baseline, short.comparison.others[0].run) == ("zero", "four")
    alone = Reported(runs[:1])
    assert shortened(alone) is alone


def test_a_sample_takes_the_calls_of_its_rounds(tmp_path: Path) -> None:
    told = [
        ("a", 1, {"latency_s": 1.0, "cached": True}),
        ("a", 2, {"latency_s": 2.0}),
        ("b", 1, {"latency_s": 4.0}),
        ("c", 1, {"latency_s": 8.0}),
        ("c", 2, {"outcome": "error"}),
    ]
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        for name, round_, fields in told:
            writer.append(replaced(stored_attempt(name, 0, round_), **fields))
    assert sorted(sample_seconds(AttemptIndex(path))) == [3.0, 4.0]
    assert list(sample_seconds(AttemptIndex(tmp_path / "none"))) == []
