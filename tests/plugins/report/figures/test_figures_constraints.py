"""Bins of misses: every miss is in one."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.plugins.report.figures import BINS, Bins

WHOLE = st.integers(-5000, 5000).map(float)
ANY = st.floats(-1e6, 1e6, allow_nan=False)


def off_by(values: st.SearchStrategy[float]) -> st.SearchStrategy[dict[str, dict[float, int]]]:
    misses = st.dictionaries(values, st.integers(1, 1000), min_size=1, max_size=40)
    return st.dictionaries(st.sampled_from("abc"), misses, min_size=1)


def in_bins(misses: dict[float, int]) -> list[tuple[str, int]]:
    """The bins of one run's misses, in words, with their counts."""
    bins = Bins.of({"a": misses})
    found = Counter[int]()
    for value, count in misses.items():
        found[bins.holding(value)] += count
    return [(bins.range_text(number), count) for number, count in sorted(found.items())]


@settings(max_examples=50)
@given(st.one_of(off_by(WHOLE), off_by(ANY)))
def test_every_miss_is_in_one_of_few_bins(misses: dict[str, dict[float, int]]) -> None:
    bins = Bins.of(misses)
    numbers = range(bins.first - 1, bins.last + 2)
    assert len(numbers) <= BINS + 2
    for of in misses.values():
        assert {bins.holding(value) for value in of} <= set(numbers)


@settings(max_examples=50)
@given(off_by(WHOLE))
def test_no_bin_holds_too_little_and_too_much(misses: dict[str, dict[float, int]]) -> None:
    bins = Bins.of(misses)
    assert bins.first <= 0 <= bins.last
    numbers = range(bins.first - 1, bins.last + 2)
    assert len({bins.range_text(number) for number in numbers}) == len(numbers)
    for of in misses.values():
        for value in of:
            number = bins.holding(value)
            assert (number > 0, number < 0) == (value > 0, value < 0)


def test_few_whole_numbers_have_a_bin_each() -> None:
    assert in_bins({-2.0: 5, 3.0: 1}) == [("-2", 5), ("+3", 1)]


def test_fractions_are_binned_too() -> None:
    assert in_bins({0.0: 1, 0.25: 2, -0.5: 1})[1] == ("0", 1)


def test_wide_bins_hold_too_few_or_too_many() -> None:
    rows = in_bins({float(n): 1 for n in range(-40, 41) if n})
    assert ("-5 to -1", 5) in rows
    assert ("+1 to +5", 5) in rows


def test_what_is_far_off_does_not_hide_the_others() -> None:
    near = {float(n): 50 for n in range(1, 6)}
    first, *others, last = in_bins({**near, 4000.0: 1, -900.0: 2})
    assert (first, last) == (("-1 or less", 2), ("+6 or more", 1))
    assert [count for _, count in others] == [50] * 5
