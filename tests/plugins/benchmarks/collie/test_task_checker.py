import subprocess
import sys
from typing import Any

import pytest

from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.records import Instance
from harness.scoring.checks import Rules, read_checks, row_checks

OPTIONS: dict[str, Any] = {
    "level": "sentence",
    "constraint": {"target_level": "word", "transformation": {"op": "count"}, "relation": "=="},
    "targets": 3,
}


def test_it_is_found_by_name_and_checks() -> None:
    checker = kind("checkers").build("constraint", OPTIONS)
    passed = checker.check("Snow fell overnight.", Instance("1", None))
    failed = checker.check("Snow fell.", Instance("1", None))
    assert (passed.value, passed.passed, passed.reason) == (True, True, "")
    assert (failed.value, failed.passed, failed.reason) == (False, False, "2 of 3 words")


@pytest.mark.parametrize(
    ("options", "row"),
    [(OPTIONS, {}), ({k: OPTIONS[k] for k in ("level", "constraint")}, {"targets": 3})],
)
def test_options_come_from_the_run_file_and_from_the_row(
    options: dict[str, Any], row: dict[str, Any]
) -> None:
    raw = read_checks([{"constraint": options}], "task.checks")
    rules = Rules(raw)
    (check,) = rules.resolve(row_checks(row, raw), row)
    assert rules.checker(check).check("Snow fell overnight.", Instance("1", None)).passed


COUNT = {"transformation": {"op": "count"}, "relation": "=="}
LAST = {"op": "position", "index": -1}


@pytest.mark.parametrize(
    ("unit", "constraint", "target", "text"),
    [
        ("sentence", COUNT, 2, "你好。再见！"),
        ("sentence", COUNT, 2, "यह है। वह है।"),
        ("sentence", COUNT, 2, "هل؟ نعم."),
        ("paragraph", COUNT, 2, "One.\r\n\r\nTwo."),
        ("paragraph", COUNT, 2, "One.\u2029Two."),
        ("word", COUNT, 2, "You don't."[4:]),
        ("word", COUNT, 3, "وهل هذا صحيح؟"),
        ("word", {"transformation": LAST, "relation": "=="}, "है", "यह है।"),
        ("word", {"transformation": LAST, "relation": "=="}, "cafe\u0301", "un café"),
        ("character", COUNT, 4, "cafe\u0301"),
    ],
)
def test_units_of_any_script(unit: str, constraint: dict[str, Any], target: Any, text: str) -> None:
    options = {"level": "passage", "constraint": {"target_level": unit, **constraint}}
    checker = kind("checkers").build("constraint", options | {"targets": target})
    assert checker.check(text, Instance("1", None)).passed is True


def test_units_that_cannot_be_counted_give_no_verdict_but_a_warning() -> None:
    constraint = {"target_level": "sentence", **COUNT}
    options = {"level": "passage", "constraint": constraint, "targets": 1}
    found = kind("checkers").build("constraint", options).check("ภาษาไทย", Instance("1", None))
    assert (found.value, found.passed) == (None, None)
    assert found.reason == found.details["warning"] != ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": "three"}, "must be a number, not 'three'"),
        ({"level": "verse"}, "invalid enum value 'verse'"),
        ({"constraint": {"logic": "all", "constraints": []}}, "length >= 1"),
        ({"target": 3}, "no option 'target'"),
    ],
)
def test_what_makes_no_constraint_is_a_config_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        kind("checkers").build("constraint", OPTIONS | change)
    assert "checker 'constraint'" in str(refused.value)


def test_without_icu_there_is_no_count() -> None:
    code = """
import sys
sys.modules["icu4py"] = sys.modules["icu4py.breakers"] = None
from harness.plugin_loader import kind
from harness.records import Instance
count = {"target_level": "word", "transformation": {"op": "count"}, "relation": "=="}
options = {"level": "passage", "constraint": count, "targets": 2}
print(kind("checkers").build("constraint", options).check("我喜欢。", Instance("1", None)).passed)
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == "None\n"
