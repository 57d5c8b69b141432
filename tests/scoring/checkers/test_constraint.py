from typing import Any

import pytest

from harness.errors import ConfigError
from harness.plugins import kind
from harness.records import Instance

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
