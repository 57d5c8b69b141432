"""numeric_match: what passes, what fails, and what it refuses."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError, Unparseable
from harness.plugin_loader import kind
from tests.scoring.checkers.test_text_matches import INSTANCE, score, score_with
from tests.tasks.test_sources import BLANKS, check_blank_target

PASSING: list[tuple[str, dict[str, Any]]] = [
    ("That makes $1,234.00.", {"target": 1234}),
    ("12 + 30 = 42", {"target": "42 apples"}),
    ("12, then 30", {"target": 12, "take": "first"}),
    ("共1,800元", {"target": "USD 1,800"}),
    ("1.5 × 10^3 m", {"target": 1500.0}),
    ("3.1416", {"target": math.pi, "tolerance": 1e-4}),
    ("101", {"target": 100, "relative": 0.01}),
    ("90", {"target": 100, "relative": 0.1}),  # not 10% of 90
    ("2", {"target": [1, 2]}),
    ("0.3", {"target": "0.30", "tolerance": 0}),
]
FAILING: list[tuple[str, dict[str, Any], str]] = [
    ("41", {"target": 42}, "41 is not the expected number"),
    ("111", {"target": 100, "relative": 0.1}, "111 is not the expected number"),
    ("1e300", {"target": "1e-300"}, "1E+300 is not the expected number"),
]


@pytest.mark.parametrize(("text", "options"), PASSING)
def test_what_passes(text: str, options: dict[str, Any]) -> None:
    found = score("numeric_match", text, **options)
    assert (found.value, found.passed, found.reason) == (True, True, "")


@pytest.mark.parametrize(("text", "options", "reason"), FAILING)
def test_what_fails_and_why(text: str, options: dict[str, Any], reason: str) -> None:
    found = score("numeric_match", text, **options)
    assert (found.value, found.passed) == (False, False)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "many"}, "needs a number, not 'many'"),
        ({"target": "3/4"}, "needs a number, not '3/4'"),
        ({"target": "3|"}, r"needs a number, not '3\|'"),
        ({"target": ["2", "; 3"]}, "needs a number, not '; 3'"),
        ({"target": "1,5"}, "needs a number, not '1,5'"),
        ({"target": []}, "needs a target"),
        ({"target": 1, "tolerance": -1}, "tolerances of 0 or more"),
    ],
)
def test_options_that_make_no_check_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind("checkers").build("numeric_match", options)


@pytest.mark.parametrize("text", ["none", "first 1, then 1,5", "1 or 2-3"])
def test_a_text_whose_number_is_missing_or_uncertain_is_unparseable(text: str) -> None:
    with pytest.raises(Unparseable):
        score("numeric_match", text, target=1)


@settings(max_examples=40)
@given(st.text(max_size=100))
@example("\u0f00")  # Tibetan
def test_no_text_is_too_odd(text: str) -> None:
    for _, options in PASSING:
        with suppress(Unparseable):
            assert score_with("numeric_match", options).check(text, INSTANCE).passed in (
                True,
                False,
            )


@pytest.mark.parametrize("field", ["target", "targets", "answer"])
@pytest.mark.parametrize("blank", BLANKS, ids=repr)
def test_a_blank_target_is_refused_with_its_row(blank: Any, field: str, tmp_path: Path) -> None:
    check_blank_target(blank, field, "numeric_match", tmp_path)
