from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, DataInvalid
from harness.records import Instance, Score
from harness.scoring.checks import MAX_CACHED_CHECKERS, Check, Rules, read_checks, row_checks


class Checks:
    """The checks of a run file, and the rules that build them."""

    def __init__(self, raw: Any) -> None:
        self.shared = read_checks(raw, "task.checks")
        self.rules = Rules(self.shared)

    def of(self, row: dict[str, Any]) -> tuple[Check, ...]:
        return self.rules.resolve(row_checks(row, self.shared), row)


def verdicts(raw: list[Any], row: dict[str, Any], text: str) -> dict[str, bool | None]:
    checks = Checks(raw)
    instance: Instance[Any] = Instance("1", None)
    return {
        one.name: checks.rules.checker(one).check(text, instance).passed for one in checks.of(row)
    }


@pytest.mark.parametrize(
    ("raw", "row", "text"),
    [
        ("exact_match", {"target": "x"}, "x"),
        ("exact_match", {"targets": ["x", "y"]}, "y"),
        ("exact_match", {"target": "", "targets": ["x", "y"]}, "y"),  # of a table
        ({"exact_match": None}, {"target": "x"}, "x"),
        ({"exact_match": {"field": "answer", "ignore_case": True}}, {"answer": "x"}, "X"),
        ({"exact_match": {"target": {"field": "answer"}}}, {"answer": "x"}, "x"),
        ({"exact_match": {"target": "x"}}, {}, "x"),
        ({"contains": {"field": "must"}}, {"must": ["a", "b"]}, "a b"),
        ({"regex_match": {"pattern": "^[A-Z]"}}, {}, "A"),
        ({"regex_match": {"field": "form"}}, {"form": "^a$"}, "a"),
        ({"word_count": {"at_most": {"field": "most"}}}, {"most": 2}, "a b"),
        ({"json_schema": {"schema": {"type": "object"}}}, {}, "{}"),
        ({"json_schema": {"field": "form"}}, {"form": {"type": "integer"}}, "1"),
    ],
)
def test_options_come_from_the_run_file_and_from_the_row(
    raw: Any, row: dict[str, Any], text: str
) -> None:
    (passed,) = verdicts([raw], row, text).values()
    assert passed is True


def test_every_check_has_a_name_of_its_own() -> None:
    raw = [
        {"contains": {"target": "a"}},
        {"contains": {"target": "b"}},
        {"contains": {"target": "c"}, "as": "has_c"},
    ]
    assert verdicts(raw, {}, "a b") == {"contains": True, "contains_2": True, "has_c": False}


def test_a_row_changes_drops_or_replaces_checks() -> None:
    raw = [{"word_count": {"at_most": 1}, "as": "short"}, {"contains": {"target": "a"}}]
    assert verdicts(raw, {}, "a b") == {"short": False, "contains": True}
    changed = {"checks": {"short": {"at_most": 2}}}
    assert verdicts(raw, changed, "a b") == {"short": True, "contains": True}
    assert verdicts(raw, {"checks": {"short": None}}, "a b") == {"contains": True}
    assert verdicts(raw, {"checks": [{"word_count": {"exactly": 2}}]}, "a b") == {
        "word_count": True
    }
    assert verdicts([], {"checks": ["exact_match"], "target": "a"}, "a") == {"exact_match": True}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("exact_match", r"task\.checks must be a list"),
        ([["exact_match"]], r"task\.checks\.1 must be a checker's name"),
        ([{}], r"task\.checks\.1 must name one checker, not 0"),
        ([{"contains": {}, "exact_match": {}}], "must name one checker, not 2"),
        (["exact_mach"], "no checker 'exact_mach'. Did you mean 'exact_match'"),
        ([{"contains": "x"}], "options of 'contains' must be a mapping"),
        ([{"contains": {"target": "x"}, "of": "prompt"}], "of must be answer or text"),
        ([{"contains": {"target": "x"}, "as": ""}], "as must be a name"),
        (["exact_match", {"contains": {}, "as": "exact_match"}], "no other check has"),
        ([{"contains": {"target": "x", "ignorecase": 1}}], "Did you mean 'ignore_case'"),
        ([{"contains": {"target": ""}}], r"task\.checks, contains: .*or an empty one"),
        ([{"regex_match": {"pattern": "("}}], "not a regular expression"),
        ([{"word_count": {"at_most": "many"}}], "'at_most'"),
        ([{"word_count": {}}], "needs exactly"),
        (
            [{"contains": {"target": "{{ answer }}"}}],
            r"task\.checks, contains: target is '{{ answer }}', .*\{target: \{field: answer\}\}",
        ),
        ([{"exact_match": {"target": ["a", "the {{b|trim}}"]}}], "{target: {field: b}}"),
        ([{"regex_match": {"pattern": "is {{ b }}$"}}], "{pattern: {field: b}}"),
        (
            [{"json_schema": {"schema": {"items": [{"requird": ["a"]}]}, "draft": "7"}}],
            "task.checks, json_schema: 'requird' is no keyword of JSON Schema.*'required' is.*'x-'",
        ),
    ],
)
def test_mistakes_in_the_run_file_are_refused_at_once(raw: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Checks(raw)


@pytest.mark.parametrize(
    ("raw", "row", "message"),
    [
        (["exact_match"], {"traget": "x"}, "'exact_match' needs the field 'target'.*'traget'"),
        ([{"contains": {"field": "must"}}], {"most": 1}, "needs the field 'must'.*'most'"),
        (["exact_match"], {"target": None}, "'target' is null"),
        (["exact_match"], {"target": []}, "empty list"),
        ([{"regex_match": {"field": "p"}}], {"p": "("}, "not a regular expression"),
        ([{"word_count": {"at_most": {"field": "n"}}}], {"n": "x"}, "'at_most'"),
        ([{"word_count": {"at_least": {"field": "n"}, "at_most": 1}}], {"n": 2}, "no text has"),
        ([], {}, "there are no checks"),
        (["exact_match"], {"target": "x", "checks": {"exact_match": None}}, "are no checks"),
        (["exact_match"], {"target": "x", "checks": {"exact": {}}}, "Did you mean 'exact_match'"),
        (["exact_match"], {"target": "x", "checks": {"exact_match": 1}}, "must be options"),
        (["exact_match"], {"target": "x", "checks": "exact_match"}, "'checks' must be a list"),
        (["exact_match"], {"target": "x", "checks": ["exact"]}, "no checker 'exact'"),
        (["exact_match"], {"target": "x", "checks": {"exact_match": {"case": 1}}}, "no option"),
    ],
)
def test_mistakes_in_a_row_are_refused_before_any_call(
    raw: list[Any], row: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataInvalid, match=message):
        Checks(raw).of(row)


def test_a_wrong_row_after_right_ones_is_refused_as_well() -> None:
    checks = Checks([{"word_count": {"at_most": {"field": "n"}}}])
    for number in range(3):
        checks.of({"n": number})
    with pytest.raises(DataInvalid, match="Option 'at_most' of the checker 'word_count'"):
        checks.of({"n": "x"})


def test_checkers_are_made_once_and_not_kept_without_bound() -> None:
    checks = Checks(["exact_match"])
    (rule,) = checks.of({"target": "x"})
    first = checks.rules.checker(rule)
    assert checks.rules.checker(rule) is first
    for number in range(MAX_CACHED_CHECKERS):
        checks.of({"target": str(number)})
    assert checks.rules.checker(rule) is not first
    assert checks.rules.checker(rule).check("x", Instance("1", None)).passed


def test_a_row_names_no_file_that_would_be_read(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "integer"}')
    ours = [{"json_schema": {"schema": str(schema)}}]
    assert verdicts(ours, {}, "1") == {"json_schema": True}
    for row in (
        {"checks": [{"json_schema": {"schema": str(schema)}}]},
        {"form": str(schema), "checks": [{"json_schema": {"field": "form"}}]},
    ):
        with pytest.raises(DataInvalid, match="would read a file that the row names"):
            verdicts(["exact_match"], row, "1")


@pytest.mark.usefixtures("executing_code")
def test_only_the_run_file_names_a_python_file(tmp_path: Path) -> None:
    marker, file = tmp_path / "ran", tmp_path / "mine.py"
    lines = [f"__import__('pathlib').Path({str(marker)!r}).touch()", "def own(text): return False"]
    file.write_text("\n".join(lines))
    with pytest.raises(DataInvalid, match="names a Python file"):
        row_checks({"checks": [str(file)]}, [])
    assert not marker.exists()
    assert verdicts([{str(file): {}}], {}, "text") == {"mine": False}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine", "'mine' is a judge, not a checker. Put it under judges:"),
        ("yes_no", "'yes_no' is a judge, not a checker. Put it under judges:"),
        ("exact_macth", "Did you mean 'exact_match'?"),
        ("foo", "word_count. 'harness checkers' lists all."),
    ],
)
def test_an_unknown_check_has_a_remedy_on_one_line(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_checks([name], "task.checks", ["mine"])
    assert said in str(raised.value).replace("\n", " ")
    assert "ifbench:" not in str(raised.value)


CLASS = """
from harness.plugin import Checker

class Mine(Checker):
    def check(self, text, instance):
        {}
"""


def score_by_class(folder: Path, body: str, text: str) -> Score:
    file = folder / "mine.py"
    file.write_text(CLASS.format(body))
    checks = Checks([str(file)])
    (check,) = checks.of({})
    return checks.rules.score(check, text, Instance("1", None))


@pytest.mark.usefixtures("executing_code")
def test_a_class_may_return_what_a_function_may(tmp_path: Path) -> None:
    assert score_by_class(tmp_path, "return text == 'a'", "a") == Score(True, True)
    assert score_by_class(tmp_path, "return 'no a'", "b") == Score(False, False, "no a")


@pytest.mark.usefixtures("executing_code")
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return None", "mine.py' returned None on instance '1'"),
        ("return {'mine': True}", "mine.py' returned {'mine': True} on instance '1'"),
        ("return text.missing", r"mine.py' raised AttributeError .*\(mine.py, line 6\)"),
    ],
)
def test_a_faulty_class_is_named(tmp_path: Path, body: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        score_by_class(tmp_path, body, "a")
