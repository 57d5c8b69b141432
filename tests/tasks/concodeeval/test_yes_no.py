import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Unparseable
from harness.tasks.concodeeval.yes_no import said


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", "yes"),
        ("No", "no"),
        ("NO.", "no"),
        ("  **Yes**, it does.", "yes"),
        ("```\nno\n```", "no"),
        ("```text\nyes\n```", "yes"),
        ("`yes`", "yes"),
        ("Yes it does.", "yes"),
        ("No, the value 5 is more than 3, so yes would be wrong.", "no"),
        ("No because 5 is too large", "no"),
        ("Answer: yes", "yes"),
        ("There are no errors in it.\n\nAnswer: **Yes**.", "yes"),
        ("First I thought yes, but the answer is no.", "no"),
        ("The answer is yes? The answer is: no", "no"),
        ("It violates maximum: no", "no"),
        ("<answer>no</answer>", "no"),
        ("yes\nno explanation", "yes"),
        ("No_", "no"),
        ("Yes/No: No", "no"),
        ("yes|no: no", "no"),
        ("Is it valid, yes or no? No.", "no"),
        ("minimum: yes\nformat: no\n\n**No**", "no"),
        ("- type: yes\n- maximum: yes\nYes", "yes"),
        ("<think>Yes? There is no minimum. No.</think>\n\nYes", "yes"),
        ("Yes </s>", "yes"),
        ("no<|eot_id|>", "no"),
        ('{"answer": "no"}', "no"),
        ("\\boxed{no}", "no"),
        ("Yes based on the schema", "yes"),
        ("No – 5 is too large", "no"),
        ("**No** (5 is too large)", "no"),
    ],
)
def test_what_is_said(text: str, answer: str) -> None:
    assert said(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "maybe",
        "Nothing is wrong with it.",
        "No errors were found in the sample",
        "There is no problem with this sample",
        "It could be yes, or no.",
        "yesterday",
        "noyes",
        'There is no "maxLength" violation; the sample is valid.',
        'No "required" member is missing, so the sample is valid.',
        "There are no (additional) properties.",
        "It has no <item> beyond the schema, hence valid.",
        "There is no $ref here.",
        "Yes/No",
    ],
)
def test_what_says_neither(text: str) -> None:
    with pytest.raises(Unparseable, match="yes"):
        said(text)


@given(st.text())
def test_any_text_ends(text: str) -> None:
    with contextlib.suppress(Unparseable):
        assert said(text) in ("yes", "no")


def test_long_texts_end_soon() -> None:
    for piece in ("answer ", "no ", "yes*_` ", "*" * 50, "answer is " * 5):
        with contextlib.suppress(Unparseable):
            said(piece * 100_000)
