"""What each cell of a study is, and how it is compared with the paper and the official code."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, UserError
from harness.plugins.reproduce.study import (
    Exhibit,
    Finding,
    Lookup,
    Study,
    findings,
    look_up,
    read_study,
)
from tests.analysis.conftest import Make, TableOf
from tests.plugins.comparisons.variants import variant

RUNS: dict[str, dict[str, Any]] = {"toy": {"model": "m", "recorded": "toys"}}
REPLAYED = {"model.backend": "replay"}


@pytest.fixture
def run(make: Make, table_of: TableOf) -> Any:
    """Eight samples: 6 pass in round 1; of the two others, one passes in round 2, then fails."""
    attempts = [
        make(f"i{n}", n < 6, groups={"parity": "odd" if n % 2 else "even"}) for n in range(8)
    ]
    later = [make("i7", passed, round=round_, groups={"parity": "odd"})
             for round_, passed in ((2, True), (3, False))]  # fmt: skip
    return variant("toy", {"all": 1.0}, model="m", complete=True), table_of(attempts + later)


def one(run: Any, paper: float | None = 0.75, **exhibit: Any) -> Finding:
    """The finding of a study's only cell."""
    fields = {"name": "T", "shows": "s", "of": {"run": "toy", "round": 1}, **exhibit}
    tree = {"rows": {"r": {}}, "paper": {"r": [paper]}, **fields}
    study = Study.model_validate({"title": "t", "source": "s", "runs": RUNS, "exhibits": [tree]})
    [found] = findings(study, {"toy": run} if run else {})
    return found


def verdict(finding: Finding, reference: str = "paper") -> str:
    """The verdict on a finding's reference value, or "" if there is none."""
    return {name: comparison.verdict for name, comparison in finding.comparisons()}.get(
        reference, ""
    )


@pytest.mark.parametrize(
    ("value", "expected", "of_code"),
    [
        (0.75, "equal", "equal"),
        (0.75004, "equal", "equal"),
        (0.7502, "within", "differs"),
        (0.1, "outside", "differs"),
        (None, "", ""),
    ],
)
def test_a_value_of_the_same_answers_must_be_equal_and_one_of_others_in_the_interval(
    run: Any, value: float | None, expected: str, of_code: str
) -> None:
    run[0].settings.update(REPLAYED)
    found = one(run, value, official={"r": [value]})
    assert (found.ours, found.n, found.why) == (0.75, 8, "")
    assert verdict(found) == expected
    assert verdict(found, "official") == of_code


def test_other_answers_than_the_recorded_ones_are_not_compared_with_the_official_code(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = one(run, 0.7502, official={"r": [0.75]})
    assert verdict(found) == "within"
    assert found.official is not None
    assert found.official.verdict == "not comparable"
    assert found.official.why == "the official code scored the recorded answers"
    monkeypatch.delitem(RUNS["toy"], "recorded")  # the authors' answers are not public
    assert verdict(one(run, official={"r": [0.7502]}), "official") == "within"


def test_the_paper_may_have_fewer_digits_than_the_official_code(run: Any) -> None:
    run[0].settings.update(REPLAYED)
    lookup = {"of": {"run": "toy", "so_far": True}, "official": {"r": [0.875]}}
    assert verdict(one(run, 0.88, **lookup)) == "within"
    found = one(run, 0.88, paper_digits=2, **lookup)
    assert (verdict(found), verdict(found, "official")) == ("equal", "equal")


def test_rows_are_those_of_either_reference_and_the_earlier_name_of_paper_is_read() -> None:
    fields = {"name": "T", "shows": "s", "of": {"run": "toy"}}
    exhibit = Exhibit.model_validate({**fields, "published": {"a": [1], "b": []}})
    assert exhibit.paper == {"a": [1.0], "b": []}
    tree = {**fields, "paper": {"c": [3]}, "official": {"a": [1], "b": [2]}}
    cells = list(Exhibit.model_validate(tree).cells())
    assert [(cell.row, cell.paper, cell.official) for cell in cells] == [
        ("a", None, 1.0),
        ("b", None, 2.0),
        ("c", 3.0, None),
    ]


def test_without_an_interval_a_value_is_equal_or_not_comparable(
    make: Make, table_of: TableOf
) -> None:
    attempts = table_of([make("i0", True, groups={"parity": "even"})])
    single = variant("toy", {"all": 1.0}, model="m", complete=True), attempts
    weighted = {"of": {"run": "toy", "mean_over": "parity"}}
    equal, other = one(single, 1.0, **weighted), one(single, 0.5, **weighted)
    assert (equal.ci95, verdict(equal)) == (None, "equal")
    assert other.paper is not None
    assert (other.paper.verdict, other.paper.why) == (
        "not comparable",
        "our value differs and has no 95% interval",
    )


def test_units_scale_value_and_interval(run: Any) -> None:
    plain, percent, count = (one(run, unit=unit) for unit in ("fraction", "percent", "count"))
    assert plain.ci95 is not None
    for found, scale in ((percent, 100), (count, 8)):
        assert found.ours == 0.75 * scale
        assert found.ci95 == pytest.approx([end * scale for end in plain.ci95])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"simulated": True}, "simulated"),
        ({"model": "other"}, "answers of other; the authors' are those of m"),
        ({"model": ""}, "answers of an unnamed model; the authors' are those of m"),
        ({"complete": False}, "incomplete: "),
    ],
)
def test_a_cell_says_why_it_is_not_comparable(run: Any, changes: dict[str, Any], why: str) -> None:
    _, attempts = run
    found = one(
        (variant("toy", {"all": 1.0}, **({"model": "m", "complete": True} | changes)), attempts)
    )
    assert verdict(found) == "not comparable"
    assert found.why.startswith(why)
    assert one(None).why == "not run"
    assert one(run, not_comparable="other prompts").why == "other prompts"
    assert one(run, of={"run": "toy", "score": "f9"}).why == "no value in the run"


def test_other_settings_than_the_papers_are_not_comparable(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant_, attempts = run
    judged = {"judges.yes_no": {"judges.yes_no.prompt": "wildifeval"}, "task.dataset": "public"}
    made = replace(variant_, settings=judged), attempts
    for key, value, why in (
        ("task.dataset", "public", ""),
        ("judges.yes_no.prompt", "wildifeval", ""),
        ("task.dataset", "v2", "task.dataset is public; for the authors' values it is v2"),
        ("judges.b.prompt", "x", "judges.b.prompt is None; for the authors' values it is x"),
    ):
        monkeypatch.setitem(RUNS["toy"], "needs", {key: value})
        assert one(made).why == why


def test_a_row_of_another_model_has_no_value_of_the_run(run: Any) -> None:
    own = one(run, rows={"r": {"model": "m"}})
    assert (own.ours, verdict(own)) == (0.75, "equal")
    other = one(run, rows={"r": {"model": "m2"}})
    assert (other.ours, other.why) == (None, "not run")


@pytest.mark.parametrize(
    ("lookup", "mean", "n"),
    [
        ({}, 6 / 8, 8),
        ({"round": 2}, 1.0, 1),
        ({"so_far": True}, 7 / 8, 8),
        ({"so_far": True, "round": 1}, 6 / 8, 8),
        ({"group": {"parity": "odd"}, "round": 1}, 3 / 4, 4),
        ({"mean_over": "parity", "round": 1}, 3 / 4, 2),
        ({"group": {"parity": "prime"}}, None, 0),
        ({"without": {"parity": "odd"}, "round": 1}, 3 / 4, 4),
        ({"without": {"parity": "prime"}, "round": 1}, 6 / 8, 8),
        ({"without": {"parity": "even"}, "so_far": True}, 4 / 4, 4),
    ],
)
def test_what_a_lookup_finds(run: Any, lookup: dict[str, Any], mean: float | None, n: int) -> None:
    found = look_up(run[1], Lookup.model_validate(lookup))
    assert (found.mean, found.n) == (mean, n)


EXHIBIT = "{name: T, shows: s, of: {run: toy}, rows: {r: {}}, paper: {r: [1]}}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[1]", "[1, 2]", "the row 'r' of paper has 2 values"),
        ("paper: {r: [1]}", "official: {r: [1, 2]}", "the row 'r' of official has 2 values"),
        (", paper: {r: [1]}", "", "T has no rows"),
        ("{r: [1]}", "{q: [1]}", "'q' is not in rows"),
        ("run: toy", "run: toys", "names the run 'toys'"),
        ("run: toy", "rnu: toy", "rnu"),
        ("name: T, ", "", "name"),
    ],
)
def test_a_study_is_checked(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "study.yaml"
    text = f"title: t\nsource: s\nruns: {{toy: {{recorded: toys}}}}\nexhibits: [{EXHIBIT}]\n"
    path.write_text(text)
    assert read_study(path).title == "t"
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read_study(path)
    error: UserError = caught.value
    assert message in f"{error}"
