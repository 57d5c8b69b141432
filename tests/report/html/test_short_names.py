from pathlib import Path

from harness.report.html.short_names import shortened
from tests.report.html.pages import attempt, compared, reported_run


def test_runs_and_their_comparison_lose_it(tmp_path: Path) -> None:
    names = ["glue.zero", "glue.four"]
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in names]
    short, comparison = shortened(runs, compared(runs))
    assert [run.name for run in short] == ["zero", "four"]
    assert comparison
    assert (comparison.baseline, comparison.others[0].run) == ("zero", "four")
    assert shortened(runs[:1]) == (runs[:1], None)
