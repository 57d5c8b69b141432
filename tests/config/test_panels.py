"""Panels in the run file: what they may be made of."""

from typing import Any

import pytest

from harness.config.identity import conflicts
from harness.config.run_file import RunFile
from tests.config.run_files import JUDGE, problem, run

JUDGES = [JUDGE | {"as": name} for name in "abc"]


def with_panels(*panels: dict[str, Any]) -> RunFile:
    return run(judges=JUDGES, panels=list(panels))


def test_a_panel_is_of_judges_of_the_run() -> None:
    (panel,) = with_panels({"as": "jury", "of": ["a", "c"], "by": "mean", "passes_from": 7}).panels
    assert (panel.as_, panel.of, panel.by, panel.passes_from) == ("jury", ("a", "c"), "mean", 7)
    again = RunFile.model_validate(with_panels({"as": "jury", "of": ["a", "c"]}).model_dump())
    assert again == with_panels({"as": "jury", "of": ["a", "c"]})


@pytest.mark.parametrize(
    ("panel", "said"),
    [
        ({"as": "jury", "of": ["a", "z"]}, "there is no judge 'z'"),
        ({"as": "jury", "of": ["a"]}, "two or more judges"),
        ({"as": "jury", "of": ["a", "a"]}, "each once"),
        ({"as": "a", "of": ["b", "c"]}, "two are named 'a'"),
        ({"as": "a", "of": ["a", "c"]}, "names the panel itself"),
        ({"of": ["a", "b"]}, "as is missing"),
        ({"as": "jury", "of": ["a", "b"], "quorum": 3}, "there are 2 judges"),
        ({"as": "jury", "of": ["a", "b"], "passes_from": 3}, "set by: mean"),
        ({"as": "jury", "of": ["a", "b"], "quorom": 2}, "did you mean 'quorum'"),
        ({"as": "j.k", "of": ["a", "b"]}, "letters, digits"),
        ({"as": "jury", "of": ["a", "b"], "by": "vote"}, "majority"),
        ("jury", "panels.0 must be a section"),
    ],
)
def test_a_panel_that_cannot_be_is_refused(panel: Any, said: str) -> None:
    found = problem(judges=JUDGES, panels=[panel])
    assert said in found


def test_another_panel_makes_another_run() -> None:
    before = with_panels({"as": "jury", "of": ["a", "b"]})
    assert conflicts(before, before) == []
    assert conflicts(before, with_panels({"as": "jury", "of": ["a", "c"]})) == ["panels.jury.of"]
    assert conflicts(before, with_panels()) == ["panels"]
    other = with_panels({"as": "jury", "of": ["a", "b"]}, {"as": "two", "of": ["b", "c"]})
    assert conflicts(before, other) == ["panels.two"]
