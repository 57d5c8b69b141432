"""Colours that can be seen, and pictures as files that refer to nothing outside."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from harness.plugins.report.figure import DARK, LIGHT, RAMP, SHAPES, Figure, config, image
from harness.plugins.report.figures import figures
from tests.plugins.report.figures.conftest import attempt


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


HOSTILE = "<script>alert(1)</script> url(http://example.org/x) \u202e{{7*7}} [a].b"


@pytest.fixture(scope="module")
def figure(report) -> Figure:
    attempts = [
        attempt(f"i{n}", n % 3 > 0, groups={"parity": f"{HOSTILE} {n % 2}"}) for n in range(8)
    ]
    runs = [report(f"{HOSTILE} {n}", attempts, marks=("SIMULATED",)) for n in (1, 2)]
    (found,) = [one for one in figures(runs, None) if one.name == "rate_by_parity"]
    return found


def test_an_svg_refers_to_nothing_outside(figure: Figure) -> None:
    svg = image(figure, "svg", "of x").decode()
    assert ">of x" in svg
    tags = set()
    for element in ElementTree.fromstring(svg).iter():
        tags.add(element.tag.rpartition("}")[2])
        for name, value in element.attrib.items():
            assert not name.endswith("href")
            if name != "aria-label":
                assert "http" not in value
                assert "url(" not in value or "url(#" in value
    assert "text" in tags
    assert not tags & {"script", "image", "a", "style", "foreignObject", "use"}
    assert "SIMULATED" in svg


def test_a_png_has_two_pixels_per_pixel_of_the_page(figure: Figure) -> None:
    content = image(figure, "png")
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == pytest.approx(1280, abs=2)


@pytest.mark.parametrize(
    "chart",
    [
        {"data": {"url": "http://127.0.0.1:9/x.json"}, "mark": "point", "encoding": {}},
        {"layer": [{"mark": {"type": "image", "url": "http://127.0.0.1:9/x.png"}}]},
        {"data": {"values": []}, "mark": "point", "encoding": {"href": {"value": "x"}}},
    ],
)
@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_a_chart_with_a_url_is_not_drawn(figure: Figure, form: str, chart) -> None:
    with pytest.raises(ValueError, match="contains a URL"):
        image(replace(figure, chart=chart), form)


def test_a_pdf_is_one_page_of_vectors(figure: Figure) -> None:
    pdf = image(figure, "pdf")
    assert pdf.startswith(b"%PDF-")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type/Page\n") <= 1
    for what in (b"/URI", b"/JavaScript", b"/Subtype /Image", b"/Launch"):
        assert what not in pdf
