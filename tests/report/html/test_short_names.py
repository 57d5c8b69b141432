from pathlib import Path

import pytest

from harness.report.html.short_names import shared, shortened
from tests.report.html.pages import attempt, compared, reported_run


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        ([], ""),
        (["glue.zero"], ""),
        (["glue.zero", "glue.four"], "glue."),
        (["glue.a.zero", "glue.a.four"], "glue.a."),
        (["glue.a.zero", "glue.b.zero"], "glue."),
        (["glue.zero", "glue.zero_four"], "glue."),
        (["glue.zero", "glue"], ""),
        (["glue.zero", "glue."], ""),
        (["gluezero", "gluefour"], ""),
    ],
)
def test_what_names_share(names: list[str], prefix: str) -> None:
    assert shared(names) == prefix


def test_runs_and_their_comparison_lose_it(tmp_path: Path) -> None:
    names = ["glue.zero", "glue.four"]
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in names]
    short, comparison = shortened(runs, compared(runs))
    assert [run.name for run in short] == ["zero", "four"]
    assert comparison
    assert (comparison.baseline, comparison.others[0].run) == ("zero", "four")
    assert shortened(runs[:1]) == (runs[:1], None)
