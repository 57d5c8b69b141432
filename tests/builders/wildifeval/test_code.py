import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders.wildifeval.code import signs


@pytest.mark.parametrize(
    "text",
    [
        "Explain:\n```\nx\n```",
        "def f(x):\n    return x",
        "import os\nfrom a.b import c, d",
        "#include <stdio.h>\nint main() {\n}",
        "SELECT name FROM friends\nWHERE x\nDELETE FROM friends",
        "<html>\n<body>\nHello\n</body>",
        "const a = 1;\nlet b = 2;",
        "x = f(1)\ny = g(2)",
    ],
)
def test_lines_that_stand_as_code_does(text: str) -> None:
    assert signs(text, ("shape",)) == "shape"
    assert signs(text, ()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Write a poem.\nReturn to the sea in its last line.\nIt must rhyme; twice.",
        "From Monday on we have new hours:\n- Monday (9 to 5);\n- Tuesday (10 to 6);",
        "For my class I need three things: a song, a game, and a story.",
        "Dear Sir,\nwith regret I must say:\nno.\nYours (still)",
        "Import duties are high.\nExport is not.",
        "Make a table with the columns name = first, age = second",
    ],
)
def test_prose_is_none(text: str) -> None:
    assert signs(text, ("word", "shape")) == ""


def test_the_paper_s_rule_takes_the_letters_anywhere() -> None:
    assert signs("What is the dress CODE there?", ("word", "shape")) == "word"
    assert signs("What is the dress code there?", ("shape",)) == ""


@given(st.text(alphabet="({[<=;:)]}> a_.\n", max_size=3_000))
def test_any_text_is_decided_on(text: str) -> None:
    assert signs(text, ("word", "shape")) in ("", "word", "shape")
