"""What counts as a change when a run is scored again."""

import pytest

from harness.plugins.rescoring.rescorer import same_scores
from harness.records import Score


@pytest.mark.parametrize(
    ("scored", "same"),
    [
        (Score(5, share=False), True),
        (Score(5.0, share=False), True),
        (Score(6, share=False), False),
        (Score(5, False, share=False), False),
        (Score(5, share=False, details={"words": 1}), False),
    ],
)
def test_a_whole_number_is_the_float_that_was_recorded(scored: Score, same: bool) -> None:
    assert same_scores({"length": Score(5.0, share=False)}, {"length": scored}) is same
