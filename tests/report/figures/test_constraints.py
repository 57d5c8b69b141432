"""Bins of misses: every miss is in one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.report.figures.constraints import BINS, bins, misses_by_bin

WHOLE = st.integers(-5000, 5000).map(float)
ANY = st.floats(-1e6, 1e6, allow_nan=False)


def off_by(values: st.SearchStrategy[float]) -> st.SearchStrategy[dict[str, dict[float, int]]]:
    misses = st.dictionaries(values, st.integers(1, 1000), min_size=1, max_size=40)
    return st.dictionaries(st.sampled_from("abc"), misses, min_size=1)


def miss_rows(misses: dict[str, dict[float, int]]) -> list[list[str]]:
    integers = all(float(value).is_integer() for of in misses.values() for value in of)
    found = misses_by_bin(misses, bins(misses))
    return [[run, one.said(integers=integers), f"{count:,}"] for run, one, count in found]


@given(st.one_of(off_by(WHOLE), off_by(ANY)))
def test_every_miss_is_in_one_bin(misses: dict[str, dict[float, int]]) -> None:
    every = bins(misses)
    assert len(every) <= BINS + 3
    for of in misses.values():
        for value in of:
            assert sum(one.holds(value) for one in every) == 1
    shown = dict.fromkeys(misses, 0)
    for run, _, count in miss_rows(misses):
        shown[run] += int(count.replace(",", ""))
    assert shown == {run: sum(of.values()) for run, of in misses.items()}


@given(off_by(WHOLE))
def test_bins_have_names_of_their_own(misses: dict[str, dict[float, int]]) -> None:
    names = [one.said(integers=True) for one in bins(misses)]
    assert len(set(names)) == len(names)


def test_few_whole_numbers_have_a_bin_each() -> None:
    assert miss_rows({"a": {-2.0: 5, 3.0: 1}}) == [["a", "-2", "5"], ["a", "+3", "1"]]


@given(off_by(WHOLE))
def test_bars_stand_over_their_whole_numbers(misses: dict[str, dict[float, int]]) -> None:
    every = bins(misses)
    for before, after in pairwise(every):
        assert before.drawn[1] == after.drawn[0]
    for of in misses.values():
        for value in of:
            (one,) = [one for one in every if one.holds(value)]
            if one.low is not None and one.high is not None:
                assert one.drawn == (one.low - 0.5, one.high - 0.5)
                assert one.drawn[0] < value < one.drawn[1]
            assert not one.drawn[0] < 0 < one.drawn[1] or value == 0 or None in (one.low, one.high)


def test_wide_bins_hold_too_few_or_too_many() -> None:
    rows = miss_rows({"a": {float(n): 1 for n in range(-40, 41) if n}})
    assert ["a", "-5 to -1", "5"] in rows
    assert ["a", "+1 to +5", "5"] in rows
    assert not any(" to " in said and said[0] == "-" and "+" in said for _, said, _ in rows)


def test_what_is_far_off_does_not_hide_the_others() -> None:
    near = {float(n): 50 for n in range(1, 6)}
    rows = miss_rows({"a": {**near, 4000.0: 1, -900.0: 2}})
    assert rows[0] == ["a", "0 or less", "2"]
    assert rows[-1] == ["a", "+6 or more", "1"]
    assert [row[2] for row in rows[1:-1]] == ["50"] * 5
