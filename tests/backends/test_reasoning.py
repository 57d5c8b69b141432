import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends._bodies import split_think


@pytest.mark.parametrize(
    ("content", "answer", "reasoning"),
    [
        ("Yes.", "Yes.", None),
        ("<think>Hm.</think>\n\nYes.", "Yes.", "Hm."),
        ("\n<think>\nHm.\n</think>Yes.", "Yes.", "Hm."),
        ("Hm.</think>Yes.", "Yes.", "Hm."),  # the template had opened it
        ("<think>Hm. And", "", "Hm. And"),  # cut off
        ("<think></think>Yes.", "Yes.", ""),
        ("Say <think>x</think> twice.", "Say <think>x</think> twice.", None),
        ("<think>a</think>b</think>c", "b</think>c", "a"),
        ("", "", None),
    ],
)
def test_the_block_at_the_beginning_is_reasoning(
    content: str, answer: str, reasoning: str | None
) -> None:
    assert split_think(content) == (answer, reasoning)


@given(st.text())
def test_an_answer_without_tags_is_not_touched(text: str) -> None:
    if "think>" not in text:
        assert split_think(text) == (text, None)
