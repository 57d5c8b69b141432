import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.runs import common_prefix
from harness.report.table import Table


def texts(table: Table | None) -> list[list[str]]:
    assert table
    return [[column.heading for column in table.columns], *map(table.texts, table.rows)]


@pytest.mark.parametrize(
    ("names", "start"),
    [
        ([], ""),
        (["glue.zero"], ""),
        (["glue.zero", "glue.four"], "glue."),
        (["glue.a.zero", "glue.a.four"], "glue.a."),
        (["glue.a.zero", "glue.b.zero"], "glue."),
        (["glue.zero", "glue.zero_four"], "glue."),
        (["glue.zero", "squad.zero"], ""),
        (["glue.zero", "glue"], ""),
        (["glue.zero", "glue."], ""),
        (["a.b.c", "a.b."], "a."),
        (["glue.zero", "glue. "], ""),
        (["gluezero", "gluefour"], ""),
        (["gpt-4.1", "gpt-4.5"], ""),
        (["x.gpt-4.1", "x.gpt-4.5"], "x."),
        (["top5.one", "top5.two"], "top5."),
    ],
)
def test_variants_share_the_name_of_their_run_file(names: list[str], start: str) -> None:
    assert common_prefix(names) == start


@given(st.lists(st.text(max_size=300), max_size=8, unique=True))
def test_any_names_have_a_common_start(names: list[str]) -> None:
    start = common_prefix(names)
    assert all(name.startswith(start) for name in names)
    assert not start or all(len(name) > len(start) for name in names)
