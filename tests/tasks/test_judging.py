import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid
from harness.plugin_loader import kind
from harness.records import Message
from harness.scoring.checks import read_checks
from harness.tasks import JsonlTask
from harness.tasks.items import JudgeChecks

POLITE = {"judge": "polite", "criteria": "It is polite."}
ROW: dict[str, Any] = {"prompt": "2 + 2?", "target": "4"}
JUDGES = {"polite": True, "rubric": False}


def task(
    folder: Path,
    *rows: dict[str, Any],
    judges: dict[str, bool] | None,
    panels: dict[str, list[str]] | None = None,
    **options: Any,
) -> JsonlTask:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    built: JsonlTask = kind("tasks").build(
        "jsonl",
        {"path": str(path), **options},
        data=DataFolder(folder),
        judges=judges,
        panels=panels,
    )
    return built


def asked(made: JsonlTask, judge: str) -> list[list[str] | None]:
    """Of each row, what a judge decides on; None where it is not put before it."""
    seen = made.for_judge(judge)
    return [
        [one.text for one in seen.criteria(row)] if made.judged_by(row, judge) else None
        for row in made.instances()
    ]


def test_a_row_is_put_before_the_judges_that_its_checks_name(tmp_path: Path) -> None:
    rows = (
        {**ROW, "checks": [POLITE]},
        {**ROW, "checks": ["exact_match"]},
        {**ROW, "checks": ["exact_match", {"judge": "rubric"}]},
    )
    made = task(tmp_path, *rows, judges=JUDGES)
    assert asked(made, "polite") == [["It is polite."], None, None]
    assert [made.judged_by(row, "rubric") for row in made.instances()] == [False, False, True]
    assert [made.judged_by(row, "later") for row in made.instances()] == [True] * 3


def test_a_judge_that_no_check_names_judges_all_rows_by_all_that_they_ask(tmp_path: Path) -> None:
    rows = ({**ROW, "checks": [POLITE], "criteria": ["It is short."]}, {**ROW, "criteria": "Kind."})
    made = task(tmp_path, *rows, checks=["exact_match"], judges={"polite": True, "second": True})
    assert asked(made, "second") == [["It is polite.", "It is short."], ["Kind."]]
    assert asked(made, "polite") == [["It is polite."], None]


def test_a_panel_stands_for_all_of_its_judges(tmp_path: Path) -> None:
    jury = {"judge": "jury", "criteria": "It is polite."}
    rows = (
        {**ROW, "checks": [jury]},
        {**ROW, "checks": ["exact_match"]},
        {**ROW, "checks": [{"judge": "a", "criteria": "It is short."}, jury]},
    )
    known: dict[str, Any] = {"judges": {"a": True, "b": True}, "panels": {"jury": ["a", "b"]}}
    made = task(tmp_path, *rows, **known)
    assert asked(made, "a") == [["It is polite."], None, ["It is short."]]
    assert asked(made, "b") == [["It is polite."], None, ["It is polite."]]
    made = task(tmp_path, ROW, checks=[jury], **known)
    assert asked(made, "b") == [["It is polite."]]
    known["judges"] = {"a": True, "b": False}
    with pytest.raises(ConfigError, match="'b' does not decide on criteria"):
        task(tmp_path, ROW, checks=[jury], **known)


@pytest.mark.parametrize(
    ("check", "row", "criteria"),
    [
        ({"judge": "polite"}, {"criteria": "a"}, ["a"]),
        ({"judge": "polite"}, {"criteria": ["a", "b", "a"]}, ["a", "b"]),
        ({"judge": "polite", "criteria": {"field": "must"}}, {"must": "a", "criteria": "b"}, ["a"]),
        (
            {"judge": "polite", "criteria": ["a", {"field": "must"}]},
            {"must": ["b", "a", "c"]},
            ["a", "b", "c"],
        ),
    ],
)
def test_criteria_are_texts_and_fields_of_the_row(
    tmp_path: Path, check: dict[str, Any], row: dict[str, Any], criteria: list[str]
) -> None:
    made = task(tmp_path, {**ROW, **row}, checks=[check], judges={"polite": True})
    assert asked(made, "polite") == [criteria]


def test_a_row_changes_and_drops_a_judge_by_its_name(tmp_path: Path) -> None:
    rows = (
        {**ROW, "checks": {"polite": {"criteria": "It rhymes."}}},
        {**ROW, "checks": {"polite": None}},
        {**ROW, "checks": {"exact_match": None}},
    )
    made = task(tmp_path, *rows, checks=["exact_match", POLITE], judges={"polite": True})
    assert asked(made, "polite") == [["It rhymes."], None, ["It is polite."]]
    scores = [made.score(row, "4").keys() for row in made.instances()]
    assert scores == [{"exact_match"}, {"exact_match"}, set()]


def test_of_a_row_that_judges_alone_check_nothing_is_extracted(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checks": [POLITE], "extract": {"regex": r"\d"}}
    made = task(tmp_path, ROW, judges=JUDGES, **options)
    (row,) = made.instances()
    assert made.score(row, "No number is here.") == {}


def test_a_judge_is_told_the_whole_conversation(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"}]
    rows = ({"messages": turns, "checks": [POLITE]}, {**ROW, "checks": [POLITE]})
    made = task(tmp_path, *rows, judges=JUDGES)
    first, second = made.instances()
    assert made.instruction(first) == "system: Be kind.\n\nuser: Hello?"
    assert made.instruction(second) == "2 + 2?"
    assert made.messages(second, ()) == (Message("user", "2 + 2?"),)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ([{"judge": "polit"}], "names the judge 'polit', which is not in the run file"),
        ([{"judge": "rubric", "criteria": "a"}], "'rubric' does not decide on criteria"),
        ([{"judge": 3}], "judge must be the name of a judge"),
        ([POLITE, POLITE], "there is already a check named 'polite'"),
        (["exact_match", {"judge": "exact_match"}], "there is already a check named 'exact_match'"),
        ([{**POLITE, "of": "text"}], "a check by a judge has no key 'of'"),
        ([{**POLITE, "criterion": "a"}], "has no key 'criterion'"),
    ],
)
def test_a_check_that_no_judge_can_do_is_refused(
    tmp_path: Path, checks: list[Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        task(tmp_path, ROW, checks=checks, judges=JUDGES)
    with pytest.raises(DataInvalid, match=f"rows.jsonl, item 2: .*{message}"):
        list(
            task(
                tmp_path,
                {**ROW, "checks": ["exact_match"], "criteria": "It is short."},
                {**ROW, "checks": checks},
                judges=JUDGES,
            ).instances()
        )


@pytest.mark.parametrize(
    ("check", "row", "message"),
    [
        ({"judge": "polite"}, {}, "the judge 'polite' has no criteria to decide on"),
        ({"judge": "polite"}, {"criteria": 5}, "field 'criteria' must be text or a list"),
        ({"judge": "polite"}, {"criteria": ["a", " "]}, "none of them empty"),
        (
            {"judge": "polite", "criteria": []},
            {},
            "of the check 'polite' must not be empty",
        ),
        ({"judge": "polite", "criteria": [{"field": "mst"}]}, {"must": "a"}, "needs the field 'm"),
        ({"judge": "polite", "criteria": {"field": "must"}}, {"must": []}, "the field 'must', of"),
        ({"judge": "polite", "criteria": {"a": 1}}, {}, "criteria of the check 'polite' must be"),
        ("exact_match", {}, "the judge 'polite' has no criteria to decide on"),
        (
            "exact_match",
            {"checks": {"exact_match": {}, "polite": {}}},
            "there is no such check",
        ),
    ],
)
def test_what_a_row_lacks_is_told_with_its_place(
    tmp_path: Path, check: Any, row: dict[str, Any], message: str
) -> None:
    made = task(tmp_path, {**ROW, **row}, checks=[check], judges=JUDGES)
    with pytest.raises(DataInvalid, match=f"rows.jsonl, item 1: .*{message}"):
        list(made.instances())


def test_a_field_of_criteria_is_the_users_own_where_no_judge_decides_on_it(tmp_path: Path) -> None:
    for judges in ({}, None, {"rubric": False}):
        made = task(tmp_path, {**ROW, "criteria": 5}, checks=["exact_match"], judges=judges)
        assert len(list(made.instances())) == 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=4) | st.sampled_from(["polite", "criteria"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["judge", "criteria", "field", "as"]), inner)
        ),
        max_leaves=6,
    )
)
def test_hostile_checks_and_criteria_are_refused_or_texts(value: Any) -> None:
    for raw in ([{"judge": "polite", "criteria": value}], [{"judge": value}], value):
        try:
            checks = read_checks(raw, "'checks'")
            found = JudgeChecks([], JUDGES).criteria_by_judge(
                checks, {"field": value, "criteria": value}
            )
        except (ConfigError, DataInvalid):
            continue
        assert found.keys() <= JUDGES.keys()
        texts = [text for own in found.values() for text in own]
        assert all(isinstance(text, str) and text.strip() for text in texts)


def test_a_row_that_only_a_judge_can_decide_must_name_it(tmp_path: Path) -> None:
    row = {**ROW, "criteria": "It is short."}
    with pytest.raises(DataInvalid, match="no checks") as refused:
        list(task(tmp_path, row, judges={"polite": True}).instances())
    remedy = [{"judge": "polite"}]
    assert "checks: [{judge: polite}]" in refused.value.remedy
    assert list(task(tmp_path, row, checks=remedy, judges={"polite": True}).instances())
