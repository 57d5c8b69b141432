import pytest

from harness.scoring.truncation import before_stop, first_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (" Yes.\n\ninput: Next", "Yes."),
        ("\n\n no \nyes", "no "),
        ("one\u2028two", "one"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_the_first_line_is_the_first_that_is_not_empty(text: str, line: str) -> None:
    assert first_line(text) == line


@pytest.mark.parametrize(
    ("text", "stops", "answer"),
    [
        ("\n\nyes\n\nno", ["\n\n"], "yes"),
        ("a; b. c", [".", ";"], "a"),
        ("no stop ", ["!"], "no stop "),
        ("", ["!"], ""),
        (" all", [], "all"),
    ],
)
def test_an_answer_ends_before_its_first_stop(text: str, stops: list[str], answer: str) -> None:
    assert before_stop(text, stops) == answer
