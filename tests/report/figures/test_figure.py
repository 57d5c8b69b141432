"""Colours that can be seen."""

import pytest

from harness.report.figure import DARK, LIGHT, RAMP, SHAPES, config


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """WCAG 2.2's ratio."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_marks_and_texts_stand_out(dark: bool) -> None:
    page, found = "#16181d" if dark else "#ffffff", config(dark)
    for colour in (*found["range"]["category"], *found["range"]["ordinal"]):
        assert contrast(colour, page) >= 3, f"{colour} on {page} (WCAG 1.4.11)"
    for colour in (found["axis"]["labelColor"], found["axis"]["titleColor"]):
        assert contrast(colour, page) >= 4.5, f"{colour} on {page} (WCAG 1.4.3)"


def test_runs_differ_in_colour_or_shape() -> None:
    n = len(LIGHT) * len(SHAPES)
    for palette in (LIGHT, DARK):
        looks = {(palette[i % len(palette)], SHAPES[i % len(SHAPES)]) for i in range(n)}
        assert len(looks) == n >= 56


def test_the_ramp_grows_brighter() -> None:
    brightness = [luminance(colour) for colour in RAMP]
    assert brightness == sorted(brightness)


def test_the_page_shines_through() -> None:
    assert config()["background"] == config(dark=True)["background"] == "transparent"
