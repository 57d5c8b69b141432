"""Names in pictures: inert, and never one name for two."""

from hypothesis import example, given
from hypothesis import strategies as st

from harness.plugins.report.figure import (
    LONGEST,
    display_names,
    in_legend,
    number,
    on_axis,
    sample_sizes,
    slug,
)
from harness.store.columns import natural_sort_key

NAMES = st.lists(st.text(max_size=150), max_size=5, unique=True)


@given(NAMES)
@example(["x" * 200, "x" * 201, "", " ", "(empty)"])
def test_shown_names_are_inert_and_differ(names: list[str]) -> None:
    found = display_names(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    for text in found.values():
        assert text.isprintable()
        assert text.strip() == text != ""
        assert len(text) <= LONGEST + 6


@given(NAMES)
def test_names_on_an_axis_differ_in_two_short_lines(names: list[str]) -> None:
    every = list(display_names(names).values())
    found = on_axis(every)
    assert len(set(found)) == len(every)
    for text in found:
        lines = text.split("\n")
        assert len(lines) <= 2
        assert all(len(line) <= 34 + 4 for line in lines)


def test_ends_of_long_names_are_kept() -> None:
    start = "natural_instructions.encoding_" * 3
    found = on_axis([f"{start}{end}" for end in ("max", "min")])
    assert [text[-4:] for text in found] == ["_max", "_min"]


@given(NAMES)
def test_names_in_a_legend_differ_on_a_short_line(names: list[str]) -> None:
    found = in_legend(display_names(names).values())
    assert len(set(found)) == len(names)
    assert all(len(text) <= 34 + 4 for text in found)


def test_equal_texts_are_kept_apart_too() -> None:
    assert on_axis(["a", "a"]) == ["a", "a (2)"]


@given(st.lists(st.integers(0, 10**17)))
def test_natural_order_is_that_of_numbers(numbers: list[int]) -> None:
    names = sorted((f"t{n}x" for n in numbers), key=natural_sort_key)
    assert names == [f"t{n}x" for n in sorted(numbers)]


@given(NAMES)
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert [natural_sort_key(name) for name in sorted(names, key=natural_sort_key)] == sorted(
        map(natural_sort_key, names)
    )


@given(st.text())
def test_slugs_are_plain(name: str) -> None:
    found = slug(name)
    assert found.isascii()
    assert found.replace("_", "").isalnum()
    assert found == found.lower()


def test_figures_are_never_0_for_what_is_unknown_or_tiny() -> None:
    assert [number(value) for value in (None, 0.0, 0.5, 1e-5, 123456.0)] == [
        *("n/a", "0.000", "0.500", "1e-05", "1.23e+05")
    ]
    assert number(0.25, sign=True) == "+0.250"


def test_of_many_runs_sizes_are_a_range() -> None:
    assert sample_sizes({"a": 1000}, "samples") == "n = 1,000 samples per run."
    assert sample_sizes({"a": 1, "b": 2}, "calls") == "n = 1 to 2 calls per run."
