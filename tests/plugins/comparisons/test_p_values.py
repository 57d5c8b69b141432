"""Holm's method."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.comparisons.p_values import holm


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        # 4 * .01; 3 * .02; then 2 * .03 and 1 * .04 (0.06 is not lowered to 0.04)
        ([0.01, 0.04, 0.03, 0.02], [0.04, 0.06, 0.06, 0.06]),
        ([0.005, 0.011, 0.02, 0.04, 0.13], [0.025, 0.044, 0.06, 0.08, 0.13]),
        ([0.6, 0.7], [1.0, 1.0]),
        ([None, 0.02, None, 0.01], [None, 0.02, None, 0.02]),
        ([], []),
    ],
)
def test_holm(p_values: list[float | None], adjusted: list[float | None]) -> None:
    found = holm(p_values)
    assert [p is None for p in found] == [p is None for p in adjusted]
    assert [p for p in found if p is not None] == pytest.approx(
        [p for p in adjusted if p is not None]
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_values_and_bonferroni(p_values: list[float]) -> None:
    found = holm(p_values)
    for p, adjusted in zip(p_values, found, strict=True):
        assert adjusted is not None
        assert p <= adjusted <= min(1.0, len(p_values) * p) + 1e-12
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    ranked = [found[place] for place in order]
    assert ranked == sorted(p for p in ranked if p is not None)
