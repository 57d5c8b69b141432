"""The page in a real browser: what it draws, how it is used, and that nothing in it is obeyed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect, sync_playwright

from harness.analysis.run_comparison import ComparisonOptions
from harness.records import Score
from harness.report.figures import figures
from tests.report.html.pages import (
    SECTIONS,
    attempt,
    compared,
    figure,
    reported_run,
    two_runs,
    write,
)

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium to open the report in: install it, or run scripts/test"
)

Opened = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


SIZE: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One for all tests that store nothing: a process for each of them takes half a second."""
    with browser.new_page(viewport=SIZE) as page:
        yield page


@contextmanager
def watched(page: Page) -> Iterator[Opened]:
    """Opens reports, and sees to it that they are silent and ask for nothing but themselves."""
    told: list[str] = []
    asked: list[str] = []
    own: set[str] = set()
    watchers: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: told.append(message.text),
        "pageerror": lambda error: told.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }

    def opened(path: Path, link: str = "") -> Page:
        own.add(path.as_uri())
        page.goto(path.as_uri() + link)
        expect(page.locator("#browser, #open").locator("visible=true")).to_have_count(1)
        return page

    page.set_default_timeout(8_000)
    for event, watcher in watchers.items():
        page.on(event, watcher)
    try:
        yield opened
    finally:
        for event, watcher in watchers.items():
            page.remove_listener(event, watcher)
        page.goto("about:blank")
        page.emulate_media(media="null", color_scheme="null")
        page.set_viewport_size(SIZE)
    assert told == []
    assert {url.partition("#")[0] for url in asked} == own


@pytest.fixture
def opened(tab: Page) -> Iterator[Opened]:
    with watched(tab) as opened:
        yield opened


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    return write(folder / "report.html", two_runs(folder))


def rows(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Attempts").get_by_role("option")


def found(page: Page) -> str:
    return page.locator("#found").inner_text()


def choose(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).select_option(label=value)


# Charts


def test_every_figure_is_drawn_when_it_comes_near_the_screen(two: Path, opened: Opened) -> None:
    page = opened(two)
    for section in SECTIONS:
        chart = page.get_by_role("img", name=f"Rates of {section}")
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg .mark-rect path")).to_have_count(2)
    expect(page.locator("figure")).to_have_count(len(SECTIONS))


def test_the_figures_of_a_report_are_drawn(tmp_path: Path, opened: Opened) -> None:
    runs = two_runs(tmp_path)
    every = figures(runs, compared(runs))
    page = opened(write(tmp_path / "report.html", runs, figures=every))
    assert len(every) > 3
    for each in every:
        chart = page.locator(f"#figure-{each.name} .chart")
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg [class*=mark-] path").first).to_be_attached()


def test_the_first_screens_figures_are_drawn_before_the_page_counts_as_loaded(
    two: Path, browser: Browser
) -> None:
    with browser.new_page(viewport=SIZE) as page:
        page.add_init_script(
            """addEventListener("load", () => {
              const charts = [...document.querySelectorAll(".chart")];
              const first = charts.filter((each) => each.getBoundingClientRect().top < innerHeight);
              window.blank = first.filter((each) => !each.querySelector("svg")).length;
              window.first = first.length;
            })"""
        )
        page.goto(two.as_uri(), wait_until="load")
        assert page.evaluate("window.first") > 0
        assert page.evaluate("window.blank") == 0


def test_all_figures_are_drawn_for_printing(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.emulate_media(color_scheme="dark")
    page.evaluate(
        """addEventListener("afterprint", () => {
          window.printed = document.querySelectorAll(".chart svg").length;
        })"""
    )
    page.pdf()
    assert page.evaluate("window.printed") == len(SECTIONS)


def test_the_figures_numbers_are_a_table(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.locator("#figure-results_rates summary").click()
    table = page.locator("#figure-results_rates").get_by_role("table")
    expect(table.get_by_role("row")).to_have_text([re.compile("group"), "a 0.250", "b 0.750"])


@pytest.mark.parametrize("width", [1280, 400])
def test_the_numbers_open_below_and_move_nothing_above(
    two: Path, opened: Opened, width: int
) -> None:
    page = opened(two)
    page.set_viewport_size({"width": width, "height": 900})
    card = page.locator("#figure-results_rates")
    expect(card.locator("svg")).to_be_visible()
    places = [card.locator("summary"), card.locator("[data-download=svg]")]
    places[0].scroll_into_view_if_needed()
    before = [place.bounding_box() for place in places]
    places[0].click()
    table = card.get_by_role("table")
    expect(table).to_be_visible()
    assert [place.bounding_box() for place in places] == before
    box, below = before[0], table.bounding_box()
    assert box
    assert below
    assert below["y"] >= box["y"] + box["height"]
    places[0].click()
    expect(table).to_be_hidden()


def test_figures_leave_no_holes_beside_each_other(tmp_path: Path, opened: Opened) -> None:
    values = [{"group": f"{number}", "rate": 0.5} for number in range(3)]
    figures = [replace(figure("results", values), name=f"f{number}") for number in range(4)]
    high = {**figures[0].chart, "height": 500}
    figures[0] = replace(figures[0], chart=high)
    runs = [reported_run(tmp_path, "run", [attempt("a")])]
    page = opened(write(tmp_path / "report.html", runs, figures=figures))
    expect(page.locator("#browser")).to_be_visible()
    for number in range(4):
        expect(page.locator(f"#figure-f{number} svg").first).to_be_visible()
    page.wait_for_timeout(100)
    boxes = [page.locator(f"#figure-f{number}").bounding_box() for number in range(4)]
    first, second, third, _ = (box for box in boxes if box)
    assert third["x"] == second["x"] > first["x"]
    assert 20 < third["y"] - second["y"] - second["height"] < 36
    assert third["y"] < first["y"] + first["height"]


def test_paper_has_neither_attempts_nor_bar_and_whole_pictures(two: Path, opened: Opened) -> None:
    page = opened(two)
    expect(page.locator("#figure-results_rates svg")).to_be_visible()
    page.emulate_media(media="print")
    for hidden in (".bar", "#attempts", ".downloads >> nth=0"):
        expect(page.locator(hidden)).to_be_hidden()
    card = page.locator("#figure-results_rates")
    expect(card).to_have_css("break-inside", "avoid")
    chart, whole = card.locator("svg").bounding_box(), card.locator(".chart").bounding_box()
    assert chart
    assert whole
    assert chart["width"] == pytest.approx(whole["width"], abs=1)


def test_a_figure_is_a_file_for_who_wants_it(two: Path, browser: Browser, tmp_path: Path) -> None:
    with browser.new_page() as page:
        page.goto(two.as_uri())
        for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
            with page.expect_download() as download:
                page.locator(f"#figure-cost_rates [data-download={kind}]").click()
            download.value.save_as(tmp_path / "figure")
            assert download.value.suggested_filename == f"cost_rates.{kind}"
            assert (tmp_path / "figure").read_bytes()[:4] == start


def test_a_figures_tooltip_tells_its_values(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.locator("#figure-results_rates .mark-rect path").first.hover()
    expect(page.get_by_role("tooltip")).to_have_text("grouparate0.25")


# Filters


def test_filters(two: Path, opened: Opened) -> None:
    page = opened(two)
    for label, value, count in (
        ("Verdict", "failed", "10 attempts of 4 instances"),
        ("Verdict", "passed", "14 attempts of 5 instances"),
        ("Outcome", "ok", "24 attempts of 6 instances"),
        ("Round", "every round", "36 attempts of 6 instances"),
        ("Round", "round 2", "12 attempts of 6 instances"),
        ("Against the baseline", "better (2)", "8 attempts of 2 instances"),
        ("Against the baseline", "worse (1)", "4 attempts of 1 instance"),
        ("shape", "square", "12 attempts of 3 instances"),
    ):
        choose(page, label, value)
        assert found(page) == count, value
        page.get_by_role("button", name="Clear the filters").click()
        assert found(page) == "24 attempts of 6 instances"


def test_nothing_matches_and_the_way_back(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.locator("#query").fill("nowhere to be found")
    expect(page.locator("#found")).to_have_text("Nothing matches.")
    expect(page.get_by_role("listbox")).to_be_hidden()
    page.get_by_role("button", name="Clear the filters").click()
    assert found(page) == "24 attempts of 6 instances"
    expect(page.get_by_role("listbox")).to_be_focused()
    expect(rows(page).first).to_be_visible()


def test_filters_together(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.get_by_role("checkbox", name="before").press("Space")  # a click may miss, as charts appear
    choose(page, "Verdict", "passed")
    choose(page, "shape", "round")
    assert found(page) == "4 attempts of 2 instances"
    expect(rows(page)).to_have_count(4)


def test_the_comparisons_counts_lead_to_their_instances(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.get_by_role("region", name="Runs against before").get_by_role("link", name="2").click()
    assert found(page) == "8 attempts of 2 instances"
    expect(rows(page).first).to_be_in_viewport()
    by_group = page.get_by_role("region", name="after against before, by shape")
    by_group.get_by_role("row", name="square").get_by_role("link").first.click()
    assert found(page) == "4 attempts of 1 instance"
    page.go_back()
    assert found(page) == "8 attempts of 2 instances"


def test_searching_all_texts(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.keyboard.press("/")
    for query, count in (
        ("SUM/3", "4 attempts of 1 instance"),  # an id
        ("prompt of sum/1", "4 attempts of 1 instance"),
        ("sample 1, round 2", "6 attempts of 6 instances"),  # an answer
        ("wrong in round 1", "6 attempts of 3 instances"),  # a reason
        ("Try sum/5 again", "Nothing matches."),  # a feedback, but not of a last round
        ("constraint", "Nothing matches."),  # no name of a field
    ):
        page.locator("#query").fill("")
        expect(page.locator("#found")).to_have_text("24 attempts of 6 instances")
        page.keyboard.type(query)
        expect(page.locator("#found")).to_have_text(count)


# As soon as it can be: a search is over before Playwright has found the button.
CANCEL = """() => new Promise((done) => {
  const cancel = document.getElementById("cancel");
  const look = () => (cancel.hidden ? setTimeout(look, 1) : done(cancel.click()));
  look();
})"""


@pytest.mark.exhaustive
def test_a_search_goes_through_every_chunk_and_can_be_cancelled(
    tmp_path: Path, opened: Opened
) -> None:
    # Of letters that hardly compress, for many chunks.
    long = "".join(chr(0x4E00 + (n * 7919) % 20_000) for n in range(60_000))
    attempts = [attempt(f"long/{n}", text=f"{long} end {n}") for n in range(30)]
    page = opened(write(tmp_path / "report.html", [reported_run(tmp_path, "long", attempts)]))
    page.locator("#query").fill("END 29")
    expect(page.locator("#found")).to_have_text("1 attempt of 1 instance")
    page.locator("#query").fill("end 2")
    page.evaluate(CANCEL)
    expect(page.locator("#found")).to_contain_text("cancelled at")
    page.locator("#query").fill("")
    expect(page.locator("#found")).to_have_text("30 attempts of 30 instances")


# The list, and one attempt


def active(page: Page) -> str:
    return page.locator("[role=option][aria-selected=true]").inner_text()


def test_the_keyboard(tmp_path: Path, opened: Opened) -> None:
    attempts = [attempt(f"sum/{number}") for number in range(500)]
    page = opened(write(tmp_path / "report.html", [reported_run(tmp_path, "many", attempts)]))
    box = page.get_by_role("listbox")
    box.focus()
    assert "sum/0" in active(page)
    for key, name in [
        ("ArrowDown", "sum/1"),
        ("End", "sum/499"),
        ("ArrowDown", "sum/499"),
        ("ArrowUp", "sum/498"),
        ("Home", "sum/0"),
    ]:
        page.keyboard.press(key)
        assert re.search(rf"{name}\b", active(page)), key
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    at = page.locator("[aria-selected=true]").get_attribute("aria-posinset")
    assert 5 < int(at or 0) < 40
    assert page.locator("[role=option]").count() < 60
    expect(page.locator("[aria-selected=true]")).to_have_attribute("aria-setsize", "500")
    chosen = page.locator("[aria-selected=true]").get_attribute("id")
    expect(box).to_have_attribute("aria-activedescendant", chosen or "")

    page.keyboard.press("Enter")
    heading = page.locator("#open h3")
    expect(heading).to_be_focused()
    expect(heading).to_have_text(f"sum/{int(at or 0) - 1}")
    page.keyboard.press("Escape")
    expect(box).to_be_focused()
    expect(page.locator("[aria-selected=true]")).to_have_attribute("aria-posinset", at or "")
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()


@pytest.mark.exhaustive
def test_a_list_that_is_longer_than_a_browser_can_place(tmp_path: Path, browser: Browser) -> None:
    attempts = [attempt(f"sum/{number}") for number in range(500)]
    path = write(tmp_path / "report.html", [reported_run(tmp_path, "many", attempts)])
    # As if a browser could place 5,000 pixels: the list has 22,000.
    path.write_text(path.read_text().replace("MOST_PIXELS = 15_000_000", "MOST_PIXELS = 5_000"))
    with browser.new_page(bypass_csp=True) as page:
        page.goto(path.as_uri())
        page.get_by_role("listbox").focus()
        for key, name in [("End", "sum/499"), ("ArrowUp", "sum/498"), ("Home", "sum/0")]:
            page.keyboard.press(key)
            assert re.search(rf"{name}\b", active(page))
            expect(page.locator("[aria-selected=true]")).to_be_in_viewport(ratio=1)
        page.evaluate("document.getElementById('list').scrollTop = 1e9")
        expect(rows(page).last).to_contain_text("sum/499")
        expect(rows(page).last).to_be_in_viewport(ratio=1)


def test_opening_an_attempt_and_going_back(two: Path, opened: Opened) -> None:
    page = opened(two)
    choose(page, "shape", "square")
    rows(page).nth(1).click()
    expect(page.locator("#open h3")).to_have_text("sum/1")
    expect(page.locator(".at")).to_have_text("2 of 12")
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".at")).to_have_text("3 of 12")
    page.reload()
    expect(page.locator("#open h3")).to_have_text("sum/1")
    expect(page.locator(".at")).to_have_text("3 of 12")
    page.go_back()
    assert found(page) == "12 attempts of 3 instances"
    page.go_forward()
    expect(page.locator("#open h3")).to_have_text("sum/1")
    page.get_by_role("button", name="Back to the list").click()
    assert found(page) == "12 attempts of 3 instances"


def test_a_link_to_an_attempt(two: Path, opened: Opened) -> None:
    page = opened(two, f"#attempts?open={quote('sum/3')}&sample=1&of=after&at=2")
    expect(page.locator("#open h3")).to_have_text("sum/3")
    expect(page.locator("[data-asked]")).to_contain_text("Answer sum/3, sample 1, round 2.")
    page.get_by_role("button", name="Back to the list").click()
    assert found(page) == "24 attempts of 6 instances"


def test_a_browser_that_unpacks_base64_the_old_way(two: Path, browser: Browser) -> None:
    with browser.new_page() as page:
        page.add_init_script("delete Uint8Array.fromBase64")
        page.goto(f"{two.as_uri()}#attempts?open=sum/3&sample=1")
        expect(page.locator("article").first).to_contain_text("Answer sum/3, sample 1, round 1.")


def test_a_link_to_what_is_not_there(two: Path, opened: Opened) -> None:
    page = opened(two)
    for link in ("open=none", "open=sum/1&sample=-7e9&at=x", "run=none"):
        page.goto(f"{two.as_uri()}#attempts?{link}")
        told = page.get_by_text(re.compile("Not in this page|^sum/1$|^Nothing matches"))
        expect(told.locator("visible=true")).to_have_count(1)


def test_the_rounds_that_are_compared_come_first(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.locator("#comparison").get_by_role("link", name="2").first.click()
    rows(page).first.click()
    titles = page.locator("#open article h4")
    expect(titles).to_have_text(["before · round 1", "after · round 2", "after · round 1"])
    expect(page.locator("#open article .mark")).to_have_text(["compared", "compared"])
    expect(page.locator("#open .others + .columns .missing")).to_have_text(
        "before round 1 is above."
    )
    expect(page.locator("#open article").nth(1)).to_be_in_viewport(ratio=0.5)
    strip = page.locator(".turns button")
    expect(strip).to_have_text(["1 ✗ compared", "1 ✗", "2 ✓ compared"])
    page.set_viewport_size({"width": 1280, "height": 400})
    strip.nth(1).click()
    expect(page.locator("#open article").nth(2)).to_be_focused()
    expect(titles.nth(2)).to_be_in_viewport(ratio=1)


def test_the_last_round_that_is_compared_is_the_one_asked_about(
    tmp_path: Path, opened: Opened
) -> None:
    runs = two_runs(tmp_path)
    first = msgspec.structs.replace(compared(runs), asked=ComparisonOptions(round=1))
    path = write(tmp_path / "report.html", runs, comparison=first)
    page = opened(path, "#attempts?open=sum/4&sample=0&of=after&at=2")
    titles = page.locator("#open article h4")
    expect(titles).to_have_text(["before · round 1", "after · round 1", "after · round 2"])
    expect(page.locator("#open article .mark")).to_have_count(2)
    expect(page.locator("[data-asked] h4")).to_have_text("after · round 2")
    expect(page.locator("[data-asked] h4")).to_be_in_viewport()  # a link to it was followed


def test_a_recorded_answer_has_neither_cost_nor_latency(tmp_path: Path, opened: Opened) -> None:
    manifest = {"backend": "replay"}
    run = reported_run(tmp_path, "run", [attempt("sum/0")], manifest=manifest)
    page = opened(write(tmp_path / "report.html", [run]), "#attempts?open=sum/0&sample=0")
    facts = page.locator("article .facts")
    expect(facts).to_contain_text("cost and latencyrecorded")
    assert "$" not in facts.inner_text()
    assert "ms" not in facts.inner_text()


def test_two_runs_side_by_side(two: Path, opened: Opened) -> None:
    page = opened(two, "#attempts?open=sum/0&sample=1&of=after&at=1")
    prompt, first, second = (page.locator(".columns").nth(at) for at in range(3))
    expect(prompt).to_contain_text("Prompt of sum/0.")
    expect(prompt.locator("section")).to_have_count(1)  # the same for both
    before, after = (first.get_by_role("article").nth(at) for at in range(2))
    other = second.get_by_role("article")
    for one, name, round_, verdict in [
        (before, "before", 1, "passed"),
        (after, "after", 2, "passed"),
        (other, "after", 1, "failed"),
    ]:
        expect(one.get_by_role("heading", level=4)).to_have_text(f"{name} · round {round_}")
        expect(one.locator(".said")).to_have_text(verdict)
        expect(one).to_contain_text(f"Answer sum/0, sample 1, round {round_}.")
        expect(one).to_contain_text("10 in, 20 out")
    expect(other).to_contain_text("sum/0 is wrong in round 1")
    other.get_by_text("Feedback").click()
    expect(other.get_by_text("Try sum/0 again.")).to_be_visible()
    where = "articles => articles.map(a => a.getBoundingClientRect()).map(({x, y}) => [x, y])"
    (left, top), (right, same) = first.get_by_role("article").evaluate_all(where)
    assert left < right
    assert top == same
    page.set_viewport_size({"width": 600, "height": 900})
    (left, top), (right, below) = first.get_by_role("article").evaluate_all(where)
    assert left == right
    assert top < below


def test_two_of_three_runs_are_chosen(tmp_path: Path, opened: Opened) -> None:
    runs = [
        reported_run(tmp_path / name, name, [attempt("sum/0", prompt=f"Asked by {name}")])
        for name in ("one", "two", "three")
    ]
    page = opened(write(tmp_path / "report.html", runs))
    rows(page).nth(2).click()
    titles = page.locator(".columns article h4")
    expect(titles).to_have_text(["one", "three"])
    expect(page.locator(".prompt h4")).to_have_text(["Prompt of one", "Prompt of three"])
    choose(page, "Left", "two")
    expect(titles).to_have_text(["two", "three"])
    choose(page, "Right", "one")
    expect(titles).to_have_text(["two", "one"])
    page.reload()
    expect(titles).to_have_text(["two", "one"])


def test_constraints_are_a_table(tmp_path: Path, opened: Opened) -> None:
    told = [
        {"constraint": "with exactly 3 words", "passed": False, "observed": 4, "target": 3},
        {"constraint": "with 'a'", "passed": True, "observed": ["a", "b"], "target": "a"},
        {"constraint": "of another kind", "passed": None},
    ]
    score = Score(False, False, "4 of 3 words", {"constraints": told, "notes": {"a": 1}})
    run = reported_run(tmp_path, "run", [attempt("sum/0", passed=False, scores={"rules": score})])
    page = opened(write(tmp_path / "report.html", [run]), "#attempts?open=sum/0&sample=0")
    table = page.get_by_role("region", name="Constraints").get_by_role("row")
    expect(table).to_have_text(
        [
            re.compile("constraint"),
            "with exactly 3 words✗ no43",
            "with 'a'✓ yesa\nba",
            "of another kind?",
        ]
    )
    page.get_by_text("Details").click()
    expect(page.get_by_text('{"a":1}')).to_be_visible()


def test_a_long_text_is_shown_in_parts_and_a_very_long_one_is_cut(
    tmp_path: Path, opened: Opened
) -> None:
    texts = {"sum/0": "word " * 10_000, "sum/1": "letter" * 1_700_000}
    run = reported_run(tmp_path, "run", [attempt(name, text=text) for name, text in texts.items()])
    path = write(tmp_path / "report.html", [run])
    assert path.stat().st_size < 3_000_000
    page = opened(path, "#attempts?open=sum/0&sample=0")
    answer = page.locator("article .text").first
    assert len(answer.inner_text()) == 20_000
    page.get_by_role("button", name="Show all 50,000 characters").click()
    assert len(answer.inner_text()) == 50_000
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Cut: the full text has 10,200,000 characters.")).to_be_visible()


# What comes from a run is data

PAYLOADS = [
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "[a](javascript:window.pwned=1)",
    "</textarea></style></title><script>window.pwned=1</script>",
    "<!--<script>",
    "--><b>",
    "\"'><iframe srcdoc='<script>top.pwned=1</script>'>",
    "{{7*7}}{% raw %}",
    "${window.pwned=1}`",
    "nul\x00esc\x1b[2Jdel\x7f",
    "over\u202eride\u2066x\u2069",
    "zero\u200bwidth\ufeff\u00ad",
    "back\\slash \u2028 line",
]


def shown(payload: str) -> str:
    """As the page shows it."""
    hidden = "[\x00-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u2028\u202a-\u202e\u2066-\u2069\ufeff]"
    return re.sub(hidden, lambda m: f"⟨U+{ord(m[0]):04X}⟩", payload)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    runs = [
        reported_run(
            folder / str(number),
            f"run {number} {name}",
            [
                attempt(
                    payload,
                    passed=bool(number),
                    prompt=payload,
                    text=payload,
                    feedback=payload,
                    reasoning=payload,
                    error=payload,
                    finish_reason=payload,
                    groups={f"label {payload}": payload, "kind": payload},
                    scores={
                        payload: Score(
                            bool(number),
                            bool(number),
                            payload,
                            {
                                "constraints": [{"constraint": payload, "observed": payload}],
                                "x": payload,
                            },
                        )
                    },
                )
                for payload in PAYLOADS
            ],
            marks=[f"SIMULATED {name}"],
            settings={name: name, "model.name": [name, number]},
            manifest={name: {name: name}, "packages": {name: name}, "started_at": name},
        )
        for number, name in enumerate([PAYLOADS[1], "".join(PAYLOADS)])
    ]
    values = [{"group": payload, "rate": 0.5} for payload in PAYLOADS]
    attack = figure("results", values)
    attack = type(attack)(
        attack.name,
        "".join(PAYLOADS),
        "".join(PAYLOADS),
        attack.chart,
        tuple(PAYLOADS[:2]),
        attack.rows,
        PAYLOADS[2],
    )
    return write(
        folder / "report.html",
        runs,
        title="".join(PAYLOADS),
        figures=[figure("results", values), attack],
        comparison=compared(runs, "kind"),
    )


def test_an_attack_in_any_place_is_shown_and_not_obeyed(hostile: Path, opened: Opened) -> None:
    page = opened(hostile)
    expect(page.locator("h1")).to_have_text(shown("".join(PAYLOADS)))
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg").first).to_be_visible()
    for at, payload in enumerate(PAYLOADS):
        page.goto(f"{hostile.as_uri()}#attempts?open={quote(payload, safe='')}&sample=0")
        expect(page.locator("#open h3")).to_have_text(shown(payload), use_inner_text=False)
        article = page.locator("article").first
        for folded in article.locator("summary").all():
            folded.click()
        assert article.inner_text().count(shown(payload)) >= 7, at
        assert page.locator(".prompt .text").inner_text() == shown(payload)
    assert page.evaluate("window.pwned") is None
    assert page.locator("iframe, object, embed, img:not([alt])").count() == 0
    links = page.eval_on_selector_all("a", "links => links.map(link => link.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    shapes = "⟨U\\+202E⟩"
    expect(page.locator("h1 .escape", has_text=re.compile(shapes))).to_have_count(1)


def test_an_attack_in_a_search_is_a_search(hostile: Path, opened: Opened) -> None:
    page = opened(hostile)
    page.locator("#query").fill("<img src=x ONERROR")
    expect(page.locator("#found")).to_have_text("2 attempts of 1 instance")
    rows(page).first.click()
    expect(page.locator("article mark").first).to_have_text("<img src=x onerror")
    page.goto(f"{hostile.as_uri()}#attempts?q={quote('</script><script>window.pwned=1')}")
    expect(page.locator("#found")).to_have_text(re.compile(r"^\d+ attempts"))
    assert page.evaluate("window.pwned") is None


def test_the_pages_policy_stops_what_is_not_its_own(two: Path, browser: Browser) -> None:
    with browser.new_page() as page:
        page.goto(two.as_uri())
        page.evaluate(
            """() => {
              const script = document.createElement("script");
              script.textContent = "window.pwned = 1";
              document.body.append(script);
              const image = "<img src=x onerror='window.pwned = 1'>";
              document.body.insertAdjacentHTML("beforeend", image);
            }"""
        )
        refused = page.evaluate(
            "() => fetch('https://127.0.0.1:9/').then(() => 'asked', () => 'refused')"
        )
        assert refused == "refused"
        assert page.evaluate("window.pwned") is None


# How it looks


def ground(page: Page) -> str:
    told: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return told


def test_light_and_dark(two: Path, browser: Browser) -> None:
    with browser.new_page(color_scheme="dark") as tab, watched(tab) as opened:
        page = opened(two)
        chart = page.locator("#figure-results_rates svg")
        page.locator("#figure-results_rates").scroll_into_view_if_needed()
        assert ground(page) == "rgb(20, 23, 28)"
        expect(chart).to_have_css("background-color", "rgb(20, 23, 28)")
        page.emulate_media(color_scheme="light")
        assert ground(page) == "rgb(255, 255, 255)"
        expect(chart).to_have_css("background-color", "rgb(255, 255, 255)")
        button = page.get_by_role("button", name="Theme")
        expect(button).to_have_accessible_name("Theme: auto")
        for name, color in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 28)")]:
            button.click()
            expect(button).to_have_accessible_name(f"Theme: {name}")
            assert ground(page) == color
        expect(chart).to_have_css("background-color", "rgb(20, 23, 28)")


@pytest.mark.exhaustive
@pytest.mark.parametrize("which", ["two", "hostile"])
def test_no_page_is_wider_than_the_screen(
    request: pytest.FixtureRequest, opened: Opened, which: str
) -> None:
    path: Path = request.getfixturevalue(which)
    first = "sum/0" if which == "two" else quote(PAYLOADS[0], safe="")
    page = opened(path)
    for link in ("", "#attempts?round=every", f"#attempts?open={first}&sample=0"):
        page.goto(path.as_uri() + link)
        if "open" in link:
            expect(page.locator("article").first).to_be_visible()
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        for width in (360, 400, 768, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.scrollingElement.scrollWidth")
            assert wide <= width, link


def test_the_bar_shows_where_one_is(two: Path, opened: Opened) -> None:
    page = opened(two)
    for width in (360, 800):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(two.as_uri())
        page.goto(f"{two.as_uri()}#attempts")
        link = page.locator(".bar li a[aria-current]")
        expect(link).to_have_text("Attempts")
        expect(link).to_be_in_viewport(ratio=1)


def test_every_control_has_a_name(two: Path, opened: Opened) -> None:
    page = opened(two)
    controls = r"- (button|combobox|checkbox|searchbox|link|listbox|region|img|figure|option)"
    for link in ("", "#attempts?open=sum/0&sample=0"):
        page.goto(two.as_uri() + link)
        page.wait_for_timeout(100)
        snapshot = page.locator("body").aria_snapshot()
        named = re.findall(rf'{controls} "[^"]+"', snapshot)
        assert len(named) > 20
        assert not re.findall(rf"{controls}(?! \")[^\n]*", snapshot)
    assert page.locator("h1").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    for role in ("banner", "navigation", "main"):
        expect(page.get_by_role(role)).to_have_count(1)


def test_the_skip_link_and_focus_can_be_seen(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the results")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
