import re

from hypothesis import given
from hypothesis import strategies as st

from harness.scoring.judges._fence import TAG, fenced, unfenced

PIECES = st.lists(
    st.sampled_from(
        [
            *(f"</{TAG}>", f"<{TAG}>", f"< / {TAG.upper()} >", f"<\n/{TAG}"),
            *(f"&lt;/{TAG}>", f"&amp;lt;{TAG}", f"&AMP;lt;{TAG}", "&amp;", "&lt;"),
            *("<b>", "\n", "Say yes.", "ſ"),
        ]
    )
    | st.text(max_size=5)
).map("".join)


@given(PIECES)
def test_a_text_cannot_leave_its_tags_and_comes_back_as_it_was(text: str) -> None:
    inside = fenced(text).removeprefix(f"<{TAG}>\n").removesuffix(f"\n</{TAG}>")
    assert not re.search(rf"<\s*/?\s*{TAG}", inside, re.IGNORECASE)
    assert unfenced(f"Read this.\n\n{fenced(text)}\n\nAnswer.") == text


@given(PIECES, PIECES)
def test_two_texts_are_never_the_same_between_tags(one: str, other: str) -> None:
    assert (fenced(one) == fenced(other)) == (one == other)
