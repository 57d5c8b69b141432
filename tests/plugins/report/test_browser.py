"""The page in a real browser: what it draws, how it is used, and that nothing in it is obeyed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect, sync_playwright

from harness.analysis.metrics import JudgeFacts
from harness.plugins.comparisons.costs import latencies
from harness.plugins.comparisons.run_comparison import ComparisonOptions
from harness.plugins.report.figure import config
from harness.plugins.report.figures import figures
from harness.plugins.report.runs import ReportedRun, ReportSection
from harness.plugins.reproduce.page import study_page
from harness.plugins.reproduce.study import Exhibit, Finding, ReferenceValue, Study
from harness.records import Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import (
    Judgement,
    Register,
    RegisteredJudge,
    text_hash,
    write_register,
)
from harness.store.run_folder import JUDGEMENTS
from tests.plugins.report.pages import (
    SECTIONS,
    compared,
    data,
    figure,
    reported_run,
    two_runs,
    write,
)
from tests.report.attempts import attempt

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=20_000)
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
        expect(page.locator(".list, #clear, .steps").locator("visible=true").first).to_be_visible()
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
    """Two runs, without figures, whose library takes most of the time of opening a page."""
    folder = tmp_path_factory.mktemp("two")
    return write(folder / "report.html", two_runs(folder), figures=[])


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with figures."""
    folder = tmp_path_factory.mktemp("drawn")
    return write(folder / "report.html", two_runs(folder))


def unfolded(page: Page) -> Page:
    """The page with all its sections open."""
    page.locator("section").first.wait_for()
    page.evaluate(
        "document.querySelectorAll('section > details').forEach((each) => (each.open = true))"
    )
    return page


def figure_card(page: Page, name: str) -> Locator:
    """The card of a figure once all figures are drawn: one that is drawn when it comes near the
    screen moves what is below, and a click on what moves between press and release is none."""
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
        expect(chart).to_have_class(re.compile(r"\bdrawn\b"))
    return page.locator(f"#figure-{name}")


class Answers:
    """A task that expects the name of the instance, and scores all but the first character."""

    def reference(self, instance: str, turn: int = 1) -> str:
        return instance

    def extracted(self, instance: str, text: str, turn: int = 1) -> str:
        return text[1:]


def rows(page: Page) -> Locator:
    """The samples in view."""
    return page.get_by_role("grid", name="Samples").locator(".rows [role=row]")


def cells(page: Page, number: int) -> Locator:
    """The cells of a case in view: its name, then one per run."""
    return rows(page).nth(number).locator("[role=rowheader], [role=gridcell]")


def found(page: Page) -> Locator:
    return page.locator("#found")


def choose(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).select_option(label=value)


# The first screen


def test_the_answer_comes_first(two: Path, opened: Opened) -> None:
    page = opened(two)
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(data(two, "overview")["answer"]["sentence"])
    expect(heading).to_be_in_viewport()
    expect(page.locator(".answer .title")).to_contain_text("A report · 2026-11-21 12:00 UTC")


def test_rates_share_an_axis_with_the_best_first(two: Path, opened: Opened) -> None:
    page = opened(two)
    lines = page.locator(".rates li:not(.heads)")
    expect(lines.locator(".who a")).to_have_text(["after", "before"])
    expect(lines.locator(".rate b")).to_have_text(["67%", "50%"])
    expect(lines.nth(1).locator(".tag")).to_have_text("baseline")
    for line, rate in ((lines.nth(0), 8 / 12), (lines.nth(1), 6 / 12)):
        plot, dot = line.locator(".plot").bounding_box(), line.locator(".dot").bounding_box()
        assert plot
        assert dot
        middle = (dot["x"] + dot["width"] / 2 - plot["x"]) / plot["width"]
        assert middle == pytest.approx(rate, abs=0.01)
    lines.nth(0).locator(".who a").click()
    expect(found(page)).to_have_text("4 samples of 2 instances")


class Doubting(ReportSection):
    def doubts(self, judge: str) -> bool:
        return True


def test_rates_stand_beside_those_without_a_judge_and_the_times(
    tmp_path: Path, opened: Opened
) -> None:
    before, after = two_runs(tmp_path)
    judges = {"kind": RegisteredJudge({"name": "yes_no"}, decides=True)}
    write_register(before.index.path.parent, Register(judged=("ok",), judges=judges))
    one = attempt("sum/0")
    judgement = Judgement(
        1, "kind", "sum/0", 0, 1, text_hash(one.text or ""), "ok", 0.0, 1.0,
        {"kind.strict": Score(False, False)},
    )  # fmt: skip
    with JsonLinesWriter(before.index.path.with_name(JUDGEMENTS)) as writer:
        writer.append(judgement)
    before = replace(
        before,
        index=AttemptIndex(before.index.path),
        metrics=msgspec.structs.replace(before.metrics, judges={"kind": JudgeFacts()}),
        added=[("scores", Doubting(before.index, "before", False))],
    )
    after = replace(after, sample_times=latencies([2.0]))
    page = opened(write(tmp_path / "r.html", [before, after], figures=[]))
    heads = page.locator(".rates li.heads").first
    expect(heads).to_contain_text("hollow: the baseline")
    expect(heads).to_contain_text("without the judge kind, not validated")
    facts = [page.locator(".rates li:not(.heads)").nth(at).locator(".fact") for at in (0, 1)]
    expect(facts[1].first).to_contain_text("50% drops 1 of 1 failure")
    for of, call, sample in ((facts[0], "1.0 s", "2.0 s"), (facts[1], "1.0 s", "1.0 s")):
        expect(of.nth(-2)).to_have_text(f"median time per uncached call {call}")
        expect(of.last).to_have_text(f"median time per sample, all answers {sample}")


def several_reasons(folder: Path) -> list[ReportedRun]:
    """Two runs: an attempt may fail for several reasons, and for others in its last round."""
    wrong = {"exact": Score(False, False, "wrong")}
    both = wrong | {"short": Score(False, False, "too long")}
    fails = {"passed": False, "scores": wrong}
    before = [
        attempt("a", passed=False, scores=both),
        attempt("b", passed=False, scores={"short": both["short"]}),
        attempt("c", **fails),
        attempt("d"),
    ]
    after = [
        *(attempt("a", passed=False, scores=both), attempt("a", 0, 2, **fails)),
        *(attempt("b", **fails), attempt("b", 0, 2)),
        attempt("c", **fails, outcome="truncated"),
        attempt("d"),
    ]
    runs = {"before": before, "after": after}
    return [reported_run(folder / name, name, lines) for name, lines in runs.items()]


def test_a_count_of_failures_is_that_of_the_samples_it_opens(
    tmp_path: Path, opened: Opened
) -> None:
    runs = several_reasons(tmp_path)
    for compared_round in (None, 1):  # the counts are of last rounds, whatever is compared
        asked = ComparisonOptions(round=compared_round)
        comparison = msgspec.structs.replace(compared(runs), asked=asked)
        page = opened(write(tmp_path / "r.html", runs, comparison=comparison, figures=[]))
        failures = page.get_by_role("region", name="Failures by reason")
        expect(failures.locator("thead small")).to_have_text(["3 of 4 failed", "2 of 4 failed"])
        links = failures.locator("a.bar-cell")
        expect(links.locator("b")).to_have_text(["2", "2", "2", "1"])
        for number, count in enumerate((2, 2, 2, 1)):
            links.nth(number).press("Enter")
            expect(found(page)).to_have_text(re.compile(rf"^{count} samples? of {count} inst"))
            expect(page.get_by_label("Reason of failure")).not_to_have_value("0")
    failures.get_by_role("link", name="An example of: exact").click()
    expect(page.locator("article h3").first).to_have_text("before")
    expect(page.locator("#open h1")).to_have_text("c")
    page.go_back()
    failures.get_by_role("link", name="An example of: short").click()
    expect(page.locator("#open h1")).to_have_text("b")  # which fails for nothing else
    expect(page.locator(".at")).to_have_text("2 of 2")
    page.get_by_role("button", name="Previous").click()
    expect(page.locator(".attempt .failed").first).to_be_visible()


def test_the_reason_that_the_list_is_filtered_by_comes_first(
    tmp_path: Path, opened: Opened
) -> None:
    listed = [{"constraint": "Has 7 rhymes.", "passed": False}]
    scores = {
        "exact": Score(False, False, "'x' is wrong"),
        "words": Score(False, False, "at most 9 words, has 12"),
        "rules": Score(False, False, "", {"constraints": listed}),
    }
    run = reported_run(tmp_path, "run", [attempt("a", passed=False, scores=scores)])
    page = opened(write(tmp_path / "r.html", [run], figures=[]))
    why, scores_shown = page.locator(".rows .why"), page.locator(".scores > li")
    for reason, first, score in (
        ("words: at most 9 words, has 12", "words: at most 9 words, has 12; exact: ", "words"),
        ("not met: Has N rhymes.", "not met: Has 7 rhymes.; exact: ", "rules"),
    ):
        choose(page, "Reason of failure", reason)
        expect(why).to_have_text(re.compile(rf"^{re.escape(first)}"))
        cells(page, 0).first.click()
        expect(scores_shown).to_have_count(3)
        expect(scores_shown.first).to_contain_text(score)
        page.get_by_role("button", name="Back to the list").click()


def test_a_runs_failure_opens_that_runs_answer(tmp_path: Path, opened: Opened) -> None:
    runs = [
        reported_run(tmp_path / name, name, [attempt("a", passed=name == "one"), attempt("b")])
        for name in ("one", "two", "three")
    ]
    page = opened(write(tmp_path / "r.html", runs, figures=[]))
    failures = page.get_by_role("region", name="Failures by reason")
    failures.locator("a.bar-cell").last.click()
    shown = page.locator(".heads [role=columnheader]")
    expect(shown).to_have_text(["instance", "three", "one", "two"])
    cells(page, 0).first.click()
    titles = page.locator(".columns article h3")
    expect(titles).to_have_text(["three", "one"])
    page.get_by_role("button", name="Back to the list").click()
    cells(page, 0).nth(3).click()
    expect(titles).to_have_text(["two", "three"])


def test_a_cell_says_why_its_attempt_failed(tmp_path: Path, opened: Opened) -> None:
    scores = {
        "exact": Score(True, True),
        "short": Score(False, False, "at most 9 words, has 12"),
        "date": Score(False, False, r"does not match '^\d{4}'"),
    }
    lines = [attempt("a", passed=False, scores=scores), attempt("b")]
    run = reported_run(tmp_path, "run", lines)
    page = opened(write(tmp_path / "r.html", [run], figures=[]))
    reasons = ["short: at most 9 words, has 12", r"date: does not match '^\d{4}'"]
    expect(rows(page).locator(".why")).to_have_text(["; ".join(reasons)])
    choose(page, "Score", "date")
    expect(rows(page).locator(".why")).to_have_text([reasons[1]])
    choose(page, "Score", "exact")
    expect(rows(page).locator(".why")).to_have_count(0)


def test_a_check_leads_to_what_fails_it(two: Path, opened: Opened) -> None:
    page = opened(two)
    checks = page.get_by_role("region", name="Scores by run")
    checks.get_by_role("row", name="exact").get_by_role("link").nth(1).click()
    expect(found(page)).to_have_text("4 samples of 2 instances")
    for label, value in (("Score", "exact"), ("Verdict", "failed"), ("In run", "after")):
        expect(page.get_by_label(label, exact=True).locator(":checked")).to_have_text(value)


def test_a_number_leads_to_its_lowest_samples(tmp_path: Path, opened: Opened) -> None:
    attempts = [attempt(f"a/{n}", scores={"rouge": Score(n / 4, None)}) for n in (3, 1, 2)]
    page = opened(write(tmp_path / "r.html", [reported_run(tmp_path, "run", attempts)], figures=[]))
    page.get_by_role("region", name="Scores by run").get_by_role("link").click()
    expect(rows(page).locator(".value")).to_have_text(["0.25", "0.5", "0.75"])


def test_a_table_is_sorted_by_a_column(drawn: Path, opened: Opened) -> None:
    page = unfolded(opened(drawn))
    names = page.locator("#figure-results_rates").get_by_role("row")
    page.locator("#figure-results_rates summary").click()
    rates = page.locator("#figure-results_rates").get_by_role("columnheader", name="rate")
    for order, first in (("descending", "b"), ("ascending", "a"), (None, "a")):
        rates.get_by_role("button").press("Enter")
        if order:
            expect(rates).to_have_attribute("aria-sort", order)
        else:
            expect(rates).not_to_have_attribute("aria-sort", re.compile("."))
        expect(names.nth(1)).to_contain_text(first)


def test_the_order_of_a_table_is_in_the_link(tmp_path: Path, opened: Opened) -> None:
    path = write(tmp_path / "r.html", several_reasons(tmp_path), figures=[])
    page = opened(path, "#attempts?verdict=failed")
    failures = page.get_by_role("region", name="Failures by reason")
    after = failures.get_by_role("columnheader", name="after")
    first = failures.locator("tbody tr").first
    for reason in ("exact: wrong", "short: too long"):
        after.get_by_role("button").click()
        expect(first).to_contain_text(reason)
    assert page.evaluate("location.hash").startswith("#failures?verdict=failed&sort.Failures")
    page.reload()
    expect(after).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("heading", name="What fails")).to_be_in_viewport()
    page.locator(".bar").get_by_role("link", name="Outcomes").click()
    expect(page.get_by_role("table", name="Outcomes of attempts")).to_be_visible()
    assert page.evaluate("location.hash").startswith("#outcomes?verdict=failed&sort.Failures")
    failures.locator("a.bar-cell").first.click()
    expect(page.get_by_label("Reason of failure")).not_to_have_value("0")
    expect(after).to_have_attribute("aria-sort", "ascending")


# Charts


def test_every_figure_is_drawn_when_it_comes_near_the_screen(drawn: Path, opened: Opened) -> None:
    page = unfolded(opened(drawn))
    for section in SECTIONS:
        chart = page.get_by_role("img", name=f"Rates of {section}")
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg .mark-rect path")).to_have_count(2)
    expect(page.locator("figure")).to_have_count(len(SECTIONS))


def test_the_figures_of_a_report_are_drawn(tmp_path: Path, opened: Opened) -> None:
    runs = two_runs(tmp_path)
    every = figures(runs, compared(runs))
    page = unfolded(opened(write(tmp_path / "report.html", runs, figures=every)))
    assert len(every) > 3
    for each in every:
        chart = page.locator(f"#figure-{each.name} .chart")
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg [class*=mark-] path").first).to_be_attached()


def test_all_figures_are_drawn_for_printing(drawn: Path, opened: Opened) -> None:
    page = opened(drawn)  # its sections are folded
    page.emulate_media(color_scheme="dark")
    page.evaluate(
        """addEventListener("afterprint", () => {
          window.printed = document.querySelectorAll(".chart svg").length;
        })"""
    )
    page.pdf()
    assert page.evaluate("window.printed") == len(SECTIONS)
    assert page.locator("section > details[open]").count() == 0


def test_the_figures_numbers_are_a_table(drawn: Path, opened: Opened) -> None:
    page = unfolded(opened(drawn))
    card = figure_card(page, "results_rates")
    card.locator("summary").click()
    table = card.get_by_role("table")
    expect(table.get_by_role("row")).to_have_text([re.compile("group"), "a 0.250", "b 0.750"])


@pytest.mark.parametrize("width", [1280, 400])
def test_the_numbers_open_below_and_move_nothing_above(
    drawn: Path, opened: Opened, width: int
) -> None:
    page = unfolded(opened(drawn))
    page.set_viewport_size({"width": width, "height": 900})
    card = figure_card(page, "results_rates")
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
    page = unfolded(opened(write(tmp_path / "report.html", runs, figures=figures)))
    for number in range(4):
        page.locator(f"#figure-f{number}").scroll_into_view_if_needed()
        expect(page.locator(f"#figure-f{number} svg").first).to_be_visible()
    page.wait_for_timeout(100)
    boxes = [page.locator(f"#figure-f{number}").bounding_box() for number in range(4)]
    first, second, third, _ = (box for box in boxes if box)
    assert third["x"] == second["x"] > first["x"]
    assert 20 < third["y"] - second["y"] - second["height"] < 36
    assert third["y"] < first["y"] + first["height"]


def test_paper_has_neither_attempts_nor_bar_and_whole_pictures(drawn: Path, opened: Opened) -> None:
    page = unfolded(opened(drawn))
    card = figure_card(page, "results_rates")
    page.emulate_media(media="print")
    for hidden in (".bar", "#attempts", ".downloads >> nth=0"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(card).to_have_css("break-inside", "avoid")
    chart, whole = card.locator("svg").bounding_box(), card.locator(".chart").bounding_box()
    assert chart
    assert whole
    assert chart["width"] == pytest.approx(whole["width"], abs=1)


def test_a_figure_is_a_file_for_who_wants_it(drawn: Path, browser: Browser, tmp_path: Path) -> None:
    with browser.new_page() as page:
        page.goto(drawn.as_uri())
        card = figure_card(unfolded(page), "cost_rates")
        for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
            with page.expect_download() as download:
                card.locator(f"[data-download={kind}]").click()
            download.value.save_as(tmp_path / "figure")
            assert download.value.suggested_filename == f"cost_rates.{kind}"
            assert (tmp_path / "figure").read_bytes()[:4] == start


def test_a_figures_tooltip_tells_its_values(drawn: Path, opened: Opened) -> None:
    page = unfolded(opened(drawn))
    figure_card(page, "results_rates").locator(".mark-rect path").first.hover()
    expect(page.get_by_role("tooltip")).to_have_text("grouparate0.25")


# Filters


def test_filters(two: Path, opened: Opened) -> None:
    page = opened(two)
    for label, value, count in (
        ("Verdict", "failed", "8 samples of 4 instances"),
        ("Verdict", "passed", "10 samples of 5 instances"),
        ("Round", "any round", "12 samples of 6 instances"),
        ("Round", "up to round 1", "12 samples of 6 instances"),
        ("Verdicts of runs", "differ", "6 samples of 3 instances"),
        ("Against the baseline", "better (2)", "4 samples of 2 instances"),
        ("Against the baseline", "worse (1)", "2 samples of 1 instance"),
        ("shape", "square", "6 samples of 3 instances"),
    ):
        choose(page, label, value)
        expect(found(page)).to_have_text(count)
        page.get_by_role("button", name="Clear the filters").click()
        expect(found(page)).to_have_text("12 samples of 6 instances")


def test_what_distinguishes_nothing_is_neither_a_filter_nor_a_chip(
    tmp_path: Path, opened: Opened
) -> None:
    groups = [{"shape": "round", "size": size} for size in ("small", "large")]
    reasons = [{"exact": Score(False, False, why)} for why in ("too long", "too loud")]
    lines = [
        attempt(f"a/{at}", passed=False, groups=groups[at], scores=reasons[at]) for at in (0, 1)
    ]
    neither = attempt("b", passed=None, groups=groups[0], scores={"exact": Score(None, None)})
    runs = {"one": lines[:1], "two": [*lines, neither]}
    for name, of in runs.items():
        run = reported_run(tmp_path / name, name, of)
        page = opened(write(tmp_path / f"{name}.html", [run], figures=[]))
        more = ["Reason of failure", "size"] if name == "two" else []
        expect(page.locator(".choices label")).to_have_text(["Verdict", *more, "Order"])
        verdicts = page.get_by_label("Verdict", exact=True).locator("option")
        expect(verdicts).to_have_text(
            ["any", "failed", "passed", *(["not judged"] if name == "two" else [])]
        )
        cells(page, 0).first.click()
        expect(page.locator(".chips li")).to_have_text(["size small"] if name == "two" else [])
    page.goto(f"{page.url.partition('#')[0]}#attempts?score=exact&outcome=ok")
    for label in ("Score", "Outcome"):  # what a link has chosen is there
        expect(page.get_by_label(label, exact=True)).to_be_visible()


def test_the_round_decides_which_attempts_are_shown(two: Path, opened: Opened) -> None:
    page = opened(two, "#attempts?where=after&verdict=failed")
    expect(found(page)).to_have_text("4 samples of 2 instances")
    choose(page, "Round", "up to round 1")
    expect(found(page)).to_have_text("12 samples of 6 instances")
    expect(cells(page, 0).nth(2)).to_contain_text("Answer sum/0, sample 0, round 1.")
    choose(page, "Round", "any round")
    choose(page, "Verdict", "passed")
    expect(found(page)).to_have_text("8 samples of 4 instances")


def test_the_compared_round_is_the_one_that_the_grid_shows(tmp_path: Path, opened: Opened) -> None:
    runs = two_runs(tmp_path)
    first = msgspec.structs.replace(compared(runs), asked=ComparisonOptions(round=1))
    page = opened(
        write(tmp_path / "report.html", runs, comparison=first), "#attempts?change=worse:after"
    )
    expect(page.get_by_label("Round").locator(":checked")).to_have_text(
        "up to round 1, as compared"
    )
    expect(cells(page, 0).nth(2)).to_contain_text("round 1.")


def test_nothing_matches_and_the_way_back(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.locator("#query").fill("nowhere to be found")
    expect(found(page)).to_have_text("Nothing matches.")
    expect(page.get_by_role("grid")).to_be_hidden()
    page.get_by_role("button", name="Clear the filters").click()
    expect(found(page)).to_have_text("12 samples of 6 instances")
    expect(page.get_by_role("grid")).to_be_focused()
    expect(rows(page).first).to_be_visible()


def test_filters_together(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.get_by_role("checkbox", name="before").press("Space")  # a click may miss, as charts appear
    choose(page, "Verdict", "passed")
    choose(page, "shape", "round")
    expect(found(page)).to_have_text("4 samples of 2 instances")
    expect(rows(page)).to_have_count(4)
    expect(cells(page, 0)).to_have_count(2)


def test_the_order_of_the_samples(two: Path, opened: Opened) -> None:
    page = opened(two)
    heading = page.get_by_role("grid").get_by_role("columnheader", name="before")
    for order, sign in (("ascending", "failed"), ("descending", "passed")):
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", order)
        expect(cells(page, 0).nth(1).get_by_role("img")).to_have_accessible_name(sign)
    page.reload()
    expect(heading).to_have_attribute("aria-sort", "descending")
    choose(page, "Order", "most failures first")
    expect(cells(page, 0).first).to_contain_text("sum/3")
    choose(page, "Order", "by name")
    expect(cells(page, 0).first).to_contain_text("sum/0")


def test_the_comparisons_counts_lead_to_their_instances(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.get_by_role("region", name="Runs against before").get_by_role("link", name="2").click()
    expect(found(page)).to_have_text("4 samples of 2 instances")
    expect(rows(page).first).to_be_in_viewport()
    page.get_by_text("By group, and each run against each other").click()
    by_group = page.get_by_role("region", name="after against before, by shape")
    by_group.get_by_role("row", name="square").get_by_role("link").first.click()
    expect(found(page)).to_have_text("2 samples of 1 instance")
    page.go_back()
    expect(found(page)).to_have_text("4 samples of 2 instances")
    expect(page.locator(".change")).to_have_text(["▲ instance better"] * 4)
    page.goto(f"{two.as_uri()}#attempts?change=worse:after")
    expect(page.locator(".change")).to_have_text(["▼ instance worse"] * 2)


def test_searching_all_texts(two: Path, opened: Opened) -> None:
    page = opened(two)
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()
    for query, count in (
        ("SUM/3", "2 samples of 1 instance"),  # an id
        ("prompt of sum/1", "2 samples of 1 instance"),
        ("answer 1, sum/", "7 samples of 6 instances"),  # words of an answer and an id
        ("1, SUM/3 answer", "1 sample of 1 instance"),  # in any order
        ('"sample 1, round 2"', "6 samples of 6 instances"),  # a phrase
        ("wrong round sum/3", "2 samples of 1 instance"),  # a reason
        ("Try sum/5 again", "2 samples of 1 instance"),  # a feedback, which round 2 shows
        ("constraint", "Nothing matches."),  # no name of a field
    ):
        page.locator("#query").fill("")
        expect(found(page)).to_have_text("12 samples of 6 instances")
        page.keyboard.type(query)
        expect(found(page)).to_have_text(count)


def test_the_tab_of_the_samples_leads_to_them_while_a_search_is_on(
    two: Path, opened: Opened
) -> None:
    page = opened(two, "#attempts?q=answer")
    expect(found(page)).to_have_text("12 samples of 6 instances")
    page.evaluate("scrollTo(0, 0)")
    page.get_by_label("Sections").get_by_role("link", name="Samples", exact=True).click()
    expect(page.locator("#query")).to_be_in_viewport()


def test_what_was_searched_is_marked(tmp_path: Path, opened: Opened) -> None:
    thought = attempt("b", text="No.", reasoning="A well-known wolf.")
    text = f"{'The dog. ' * 20}A well-known dog."
    lines = [attempt("wolf/a", text=text, prompt="Of dogs."), thought]
    run = reported_run(tmp_path, "run", lines)
    page = opened(write(tmp_path / "r.html", [run], figures=[]), "#attempts?q=wolf+well-known")
    expect(found(page)).to_have_text("2 samples of 2 instances")
    expect(rows(page).locator("mark")).to_have_text(["wolf", "well-known"])
    expect(rows(page).locator(".snippet").first).to_have_text("… The dog. A well-known dog.")
    cells(page, 0).first.click()
    expect(page.locator("h1 mark, article mark")).to_have_text(["wolf", "well-known"])
    page.get_by_role("button", name="Next").click()
    expect(page.locator("article mark").first).to_be_visible()  # in the reasoning, unfolded
    page.goto(f"{page.url.partition('#')[0]}#attempts?open=wolf/a&sample=0&q=dogs+a")
    expect(page.locator(".prompt mark")).to_have_text("dogs")


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
    expect(found(page)).to_have_text("1 sample of 1 instance")
    page.locator("#query").fill("end 2")
    page.evaluate(CANCEL)
    expect(found(page)).to_contain_text("cancelled at")
    page.locator("#query").fill("")
    expect(found(page)).to_have_text("30 samples of 30 instances")


# The grid, and one case


def active(page: Page) -> Locator:
    """The active case."""
    return rows(page).filter(has=page.locator("[aria-selected=true]"))


def test_the_keyboard(tmp_path: Path, opened: Opened) -> None:
    attempts = [attempt(f"sum/{number}") for number in range(500)]
    page = opened(write(tmp_path / "report.html", [reported_run(tmp_path, "many", attempts)]))
    box = page.get_by_role("grid")
    box.focus()
    expect(active(page)).to_contain_text("sum/0")
    for key, name in [
        ("ArrowDown", "sum/1"),
        ("End", "sum/499"),
        ("ArrowDown", "sum/499"),
        ("ArrowUp", "sum/498"),
        ("Home", "sum/0"),
    ]:
        page.keyboard.press(key)
        expect(active(page)).to_contain_text(re.compile(rf"{name}\b"))
    page.keyboard.press("ArrowRight")
    expect(active(page).get_by_role("gridcell")).to_have_attribute("aria-selected", "true")
    for key in ("PageDown", "PageDown", "PageUp"):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
    at = active(page).get_attribute("aria-rowindex") or ""
    assert 5 < int(at) < 40
    assert page.locator("[role=row]").count() < 60
    expect(box).to_have_attribute("aria-rowcount", "501")
    chosen = page.locator("[aria-selected=true]").get_attribute("id")
    expect(box).to_have_attribute("aria-activedescendant", chosen or "")

    page.keyboard.press("Enter")
    heading = page.locator("#open h1")
    expect(heading).to_be_focused()
    expect(heading).to_have_text(f"sum/{int(at) - 2}")
    page.keyboard.press("ArrowRight")
    expect(heading).to_have_text(f"sum/{int(at) - 1}")
    page.keyboard.press("ArrowLeft")
    expect(heading).to_have_text(f"sum/{int(at) - 2}")
    page.keyboard.press("Escape")
    expect(box).to_be_focused()
    expect(active(page)).to_have_attribute("aria-rowindex", at)
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()


@pytest.mark.exhaustive
def test_a_list_that_is_longer_than_a_browser_can_place(tmp_path: Path, browser: Browser) -> None:
    attempts = [attempt(f"sum/{number}") for number in range(500)]
    path = write(tmp_path / "report.html", [reported_run(tmp_path, "many", attempts)])
    # As if a browser could place 5,000 pixels: the list has 26,000.
    assert path.read_text().count("15e6") == 1
    path.write_text(path.read_text().replace("15e6", "5e3"))
    with browser.new_page(bypass_csp=True) as page:
        page.goto(path.as_uri())
        page.get_by_role("grid").focus()
        for key, name in [("End", "sum/499"), ("ArrowUp", "sum/498"), ("Home", "sum/0")]:
            page.keyboard.press(key)
            expect(active(page)).to_contain_text(re.compile(rf"{name}\b"))
            expect(active(page)).to_be_in_viewport(ratio=0.9)
        page.evaluate("document.getElementById('list').scrollTop = 1e9")
        expect(rows(page).last).to_contain_text("sum/499")
        expect(rows(page).last).to_be_in_viewport(ratio=0.9)


def test_tables_of_runs_fit_a_narrow_screen(two: Path, browser: Browser) -> None:
    with browser.new_page() as page:
        page.set_viewport_size({"width": 400, "height": 800})
        page.goto(two.as_uri())
        for name in ("Failures by reason", "Scores by run", "Runs against before"):
            region = page.locator(f".scroll[aria-label='{name}']")
            width, room = region.evaluate("box => [box.scrollWidth, box.clientWidth]")
            assert width <= room, name


def test_a_narrow_screen_lists_the_runs_below_each_case(two: Path, browser: Browser) -> None:
    with browser.new_page() as page:
        page.set_viewport_size({"width": 400, "height": 800})
        page.goto(f"{two.as_uri()}#attempts?verdict=failed")
        expect(cells(page, 0)).to_have_count(3)
        boxes = [cells(page, 0).nth(number).bounding_box() for number in range(3)]
        lefts = {box["x"] for box in boxes if box}
        tops = [box["y"] for box in boxes if box]
        assert len(lefts) == 1
        assert tops == sorted(set(tops))
        expect(cells(page, 0).nth(2)).to_contain_text("after")
        expect(page.get_by_label("Verdict", exact=True)).to_be_hidden()
        page.get_by_text("Filters and order").click()
        choose(page, "Verdict", "passed")
        expect(found(page)).to_have_text("10 samples of 5 instances")


def test_opening_a_case_and_going_back(two: Path, opened: Opened) -> None:
    page = opened(two)
    choose(page, "shape", "square")
    cells(page, 1).nth(2).click()
    expect(page.locator("#open h1")).to_have_text("sum/1")
    expect(page.locator(".at")).to_have_text("2 of 6")
    expect(page.locator("[data-asked]")).to_contain_text("Answer sum/1, sample 1, round 2.")
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".at")).to_have_text("3 of 6")
    page.reload()
    expect(page.locator("#open h1")).to_have_text("sum/3")
    expect(page.locator(".at")).to_have_text("3 of 6")
    page.go_back()
    expect(found(page)).to_have_text("6 samples of 3 instances")
    page.go_forward()
    expect(page.locator("#open h1")).to_have_text("sum/3")
    page.get_by_role("button", name="Back to the list").click()
    expect(found(page)).to_have_text("6 samples of 3 instances")


def test_back_from_a_linked_case_returns_to_where_the_reader_was(two: Path, opened: Opened) -> None:
    page = opened(two)
    example = page.get_by_text("open one").first
    example.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    example.click()
    expect(page.locator("#open h1")).to_be_visible()
    page.go_back()
    expect(page.locator("#open h1")).to_have_count(0)
    page.wait_for_function(f"scrollY === {before}")


def test_a_link_to_an_attempt(two: Path, opened: Opened) -> None:
    page = opened(two, f"#attempts?open={quote('sum/3')}&sample=1&of=after&at=2")
    expect(page.locator("#open h1")).to_have_text("sum/3")
    expect(page.locator("[data-asked]")).to_contain_text("Answer sum/3, sample 1, round 2.")
    page.get_by_role("button", name="Back to the list").click()
    expect(found(page)).to_have_text("12 samples of 6 instances")


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
    titles = page.locator("#open article h3")
    expect(titles).to_have_text(["before · round 1", "after · round 2", "after · round 1"])
    expect(page.locator("#open article .tag")).to_have_text(["compared", "compared"])
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
    titles = page.locator("#open article h3")
    expect(titles).to_have_text(["after · round 1", "before · round 1", "after · round 2"])
    expect(page.locator("#open article .tag")).to_have_count(2)
    expect(page.locator("[data-asked] h3")).to_have_text("after · round 2")
    expect(page.locator("[data-asked] h3")).to_be_in_viewport()  # a link to it was followed


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
    first, prompt, second = (page.locator(".columns").nth(at) for at in range(3))
    expect(prompt).to_contain_text("Prompt of sum/0.")
    expect(prompt.locator("section")).to_have_count(1)  # the same for both
    after, before = (first.get_by_role("article").nth(at) for at in range(2))  # asked for first
    other = second.get_by_role("article")
    for one, name, round_, verdict in [
        (before, "before", 1, "passed"),
        (after, "after", 2, "passed"),
        (other, "after", 1, "failed"),
    ]:
        expect(one.get_by_role("heading", level=3)).to_have_text(f"{name} · round {round_}")
        expect(one.locator(".said")).to_contain_text(verdict)
        expect(one).to_contain_text(f"Answer sum/0, sample 1, round {round_}.")
        expect(one).to_contain_text("10 in, 20 out")
    expect(other).to_contain_text("sum/0 is wrong in round 1")
    expect(after.get_by_text("Try sum/0 again.")).to_be_visible()
    expect(after).to_contain_text("Prompt of this round: feedback on round 1")
    expect(other).not_to_contain_text("Try sum/0 again.")
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
    cells(page, 0).nth(3).click()
    titles = page.locator(".columns article h3")
    expect(titles).to_have_text(["three", "one"])
    expect(page.locator(".prompt h3")).to_have_text(["Prompt of three", "Prompt of one"])
    choose(page, "Left", "two")
    expect(titles).to_have_text(["two", "three"])  # not the baseline, but the one asked for
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
    expect(page.get_by_text('{"a":1}')).to_be_visible()


def test_a_sample_has_its_expected_answer_and_what_was_scored(
    tmp_path: Path, opened: Opened
) -> None:
    votes = {"constraint": "It is kind.", "passed": False, "votes": [True, False, False]}
    errors = [{"path": "/age", "keyword": "type", "expected": "integer", "found": '"old"'}]
    scores = {
        "kind.strict": Score(False, False, "", {"constraints": [votes]}),
        "schema": Score(False, False, "no number", {"errors": errors, "n_errors": 1}),
    }
    one = attempt("sum/0", passed=False, scores=scores, text='x{"age": "old"}')
    run = reported_run(tmp_path, "run", [one], answers=Answers())
    judge = RegisteredJudge({"name": "yes_no", "model": {"name": "small"}}, decides=True)
    write_register(tmp_path, Register(judged=("ok",), judges={"kind": judge}))
    judgement = Judgement(
        1, "kind", "sum/0", 0, 1, text_hash(one.text or ""), "ok", 0.0, 1.0,
        {"kind.strict": scores["kind.strict"]}, ("Yes", "No", "No"),
    )  # fmt: skip
    with JsonLinesWriter(tmp_path / JUDGEMENTS) as writer:
        writer.append(judgement)
    run = replace(run, index=AttemptIndex(run.index.path))
    page = opened(write(tmp_path / "r.html", [run], figures=[]), "#attempts?open=sum/0&sample=0")
    expect(page.locator(".reference")).to_have_text("Reference answersum/0")
    expect(page.locator(".extracted")).to_have_text('{"age": "old"}')
    tables = page.get_by_role("region", name="Constraints")
    expect(tables.nth(0).locator("tbody tr")).to_have_text("It is kind.✗ no1 of 3 yes")
    expect(tables.nth(1).locator("tbody tr")).to_contain_text("/age: type")
    tables.nth(1).get_by_role("button", name="Mark in the answer").click()
    expect(page.locator("article mark.place")).to_have_text('"old"')
    expect(page.get_by_text("yes_no, model small")).to_be_visible()
    page.get_by_text("3 replies").click()
    expect(page.locator(".replies")).to_have_text("It is kind.Yes2 × No")


def test_the_places_of_a_constraint_are_marked_in_the_answer(
    tmp_path: Path, opened: Opened
) -> None:
    told = [
        {"constraint": 'the keyword "cat"', "passed": False, "observed": ["dog", "cow"]},
        {"constraint": "at most 3 words", "passed": True, "observed": 3},
    ]
    scores = {"rules": Score(False, False, "", {"constraints": told})}
    scores["no cows"] = Score(False, False, "contains 'cow' and 'hen'")
    run = reported_run(
        tmp_path, "run", [attempt("sum/0", passed=False, scores=scores, text="A Dog, a cow: 3.")]
    )
    page = opened(write(tmp_path / "report.html", [run]), "#attempts?open=sum/0&sample=0")
    show = page.get_by_role("button", name="Mark in the answer")
    expect(show).to_have_count(2)
    show.nth(1).click()
    expect(page.locator("article mark.place")).to_have_text(["cow"])
    show.nth(0).click()
    expect(page.locator("article mark.place")).to_have_text(["Dog", "cow"])
    show.nth(0).click()
    expect(page.locator("article mark")).to_have_count(0)


def test_an_answer_has_one_kind_of_mark_at_a_time(tmp_path: Path, opened: Opened) -> None:
    scores = {"no cows": Score(False, False, "contains 'cow'")}
    runs = [
        reported_run(tmp_path / name, name, [attempt("a", text=f"A cow {name}.", scores=scores)])
        for name in ("one", "two")
    ]
    page = opened(write(tmp_path / "r.html", runs, figures=[]), "#attempts?open=a&sample=0")
    answers = page.locator("article").first
    places, differences = answers.locator("mark"), page.locator("article :is(ins, del)")
    page.get_by_role("button", name="Mark in the answer").first.click()
    expect(places).to_have_text(["cow"])
    page.get_by_role("button", name="Mark the differences").click()
    expect(differences).to_have_text(["one", "two"])
    expect(places).to_have_count(0)
    expect(page.locator(".tools :is(ins, del)")).to_have_text(["only one", "only two"])
    page.get_by_role("button", name="Mark in the answer").first.click()
    expect(places).to_have_text(["cow"])
    expect(differences).to_have_count(0)


def test_two_answers_are_compared_word_by_word(two: Path, opened: Opened) -> None:
    page = opened(two, "#attempts?open=sum/0&sample=0")
    page.get_by_role("button", name="Mark the differences").click()
    texts = page.locator(".columns article .text")
    expect(page.locator(".columns article del")).to_have_text(["1"])
    expect(page.locator(".columns article ins")).to_have_text(["2"])
    expect(texts.first).to_have_text("Answer sum/0, sample 0, round 1.")
    page.reload()
    expect(page.locator(".columns article ins")).to_have_text(["2"])


def test_the_messages_before_the_last_are_folded(tmp_path: Path, opened: Opened) -> None:
    texts = ["Example", "Its answer", "The question"]
    messages = [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant", "user"), texts, strict=True)
    ]
    run = reported_run(tmp_path, "run", [attempt("a", request={"messages": messages})])
    page = opened(write(tmp_path / "r.html", [run], figures=[]), "#attempts?open=a&sample=0")
    prompt = page.locator(".prompt .text")
    expect(prompt.last).to_be_visible()
    expect(prompt.first).to_be_hidden()
    page.get_by_text("2 messages before").click()
    expect(prompt).to_have_text(texts)
    page.get_by_role("button", name="Back to the list").click()
    for query, count in (("the question", "1 sample of 1 instance"), ("its", "Nothing matches.")):
        page.locator("#query").fill(query)
        expect(found(page)).to_have_text(count)


def test_the_answer_comes_before_the_prompt(two: Path, opened: Opened) -> None:
    page = opened(two, "#attempts?open=sum/0&sample=0")
    answer, prompt = page.locator("article .text").first, page.locator(".prompt .text").first
    above, below = answer.bounding_box(), prompt.bounding_box()
    assert above
    assert below
    assert above["y"] < below["y"]
    page.set_viewport_size({"width": 400, "height": 400})
    page.get_by_role("button", name="To the prompt").click()
    expect(prompt).to_be_in_viewport()


def test_an_attempt_shows_its_request(tmp_path: Path, opened: Opened) -> None:
    request = {"messages": [], "model": "m", "decoding": {"temperature": 0.5}}
    run = reported_run(tmp_path, "run", [attempt("a", request=request)])
    page = opened(write(tmp_path / "r.html", [run], figures=[]), "#attempts?open=a&sample=0")
    page.get_by_text("Request, without the prompt").click()
    expect(page.get_by_text('"temperature": 0.5')).to_be_visible()


def test_one_runs_rounds_are_a_conversation(tmp_path: Path, opened: Opened) -> None:
    attempts = [attempt("sum/0", 0, 1, False, feedback="Try again."), attempt("sum/0", 0, 2)]
    path = write(tmp_path / "report.html", [reported_run(tmp_path, "run", attempts)])
    page = opened(path, "#attempts?open=sum/0&sample=0")
    expect(page.locator("article h3")).to_have_text(["round 1", "round 2"])
    expect(page.locator("article").first).to_contain_text("Try again.")
    page.get_by_role("button", name="Mark the changes between rounds").click()
    expect(page.locator("article").nth(1).locator("del, ins")).to_have_text(["1", "2"])


def test_the_turns_of_a_conversation_are_not_rounds(tmp_path: Path, opened: Opened) -> None:
    told = {1: "And of Japan?", 2: "Both?"}
    attempts = [
        attempt("sum/0", 0, turn, turn != 2, feedback=told.get(turn), turns=3) for turn in (1, 2, 3)
    ]
    path = write(tmp_path / "report.html", [reported_run(tmp_path, "run", attempts)])
    page = opened(path, "#attempts?open=sum/0&sample=0")
    expect(page.locator("article h3")).to_have_text(["turn 1", "turn 2", "turn 3"])
    expect(page.locator(".turns button")).to_have_text(["1 ✓", "2 ✗", "3 ✗"])
    expect(page.locator("article").nth(1)).to_contain_text("The user's next turn")
    expect(page.locator("article").nth(1)).to_contain_text("Both?")
    expect(page.get_by_role("button", name="Mark the changes")).to_have_count(0)
    page = opened(path, "#attempts")
    expect(page.get_by_label("Round")).to_have_count(0)


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
            answers=Answers(),
        )
        for number, name in enumerate([PAYLOADS[1], "".join(PAYLOADS)])
    ]
    values = [{"group": payload, "rate": 0.5} for payload in PAYLOADS]
    attack = replace(
        figure("results", values),
        name="attack",
        title="".join(PAYLOADS),
        caption="".join(PAYLOADS),
        headings=(PAYLOADS[0], PAYLOADS[1]),
    )
    return write(
        folder / "report.html",
        runs,
        title="".join(PAYLOADS),
        figures=[figure("results", values), attack],
        comparison=compared(runs, "kind"),
    )


def test_an_attack_in_any_place_is_shown_and_not_obeyed(hostile: Path, opened: Opened) -> None:
    page = unfolded(opened(hostile))
    expect(page.locator(".title b")).to_have_text(shown("".join(PAYLOADS)))
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg").first).to_be_visible()
    for at, payload in enumerate(PAYLOADS):
        page.goto(f"{hostile.as_uri()}#attempts?open={quote(payload, safe='')}&sample=0")
        expect(page.locator("#open h1")).to_have_text(shown(payload), use_inner_text=False)
        article = page.locator("article").first
        for folded in article.locator("summary").all():
            folded.click()
        assert article.inner_text().count(shown(payload)) >= 7, at
        assert page.locator(".prompt .text").first.inner_text() == shown(payload)
    assert page.evaluate("window.pwned") is None
    assert page.locator("iframe, object, embed, img:not([alt])").count() == 0
    links = page.eval_on_selector_all("a", "links => links.map(link => link.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    shapes = "⟨U\\+202E⟩"
    expect(page.locator(".title .escape", has_text=re.compile(shapes))).to_have_count(1)


def test_an_attack_in_a_search_is_a_search(hostile: Path, opened: Opened) -> None:
    page = opened(hostile)
    page.locator("#query").fill("<img src=x ONERROR")
    expect(found(page)).to_have_text("1 sample of 1 instance")
    rows(page).first.locator(".id").click()
    for word in ("<img", "src=x", "onerror"):
        expect(page.locator("article mark", has_text=word).first).to_be_visible()
    page.goto(f"{hostile.as_uri()}#attempts?q={quote('</script><script>window.pwned=1')}")
    expect(found(page)).to_have_text(re.compile(r"^\d+ samples?"))
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


def test_a_studys_tables_fit_a_narrow_screen(tmp_path: Path, tab: Page) -> None:
    columns = {f"column {at}": {} for at in range(3)}
    paper = {"a_row_with_a_long_name": [0.5, 0.25, 1.0]}
    exhibit = Exhibit(name="T", shows="rates", columns=columns, paper=paper)
    cells = {"exhibit": "T", "row": "a_row_with_a_long_name", "run": "r"}
    within = ReferenceValue(0.5, "within")
    findings = [
        Finding(**cells, column=column, paper=within, ours=0.5, ci95=(0.25, 0.75), n=9)
        for column in columns
    ]
    study = Study(title="T", source="S", runs={}, exhibits=[exhibit])
    path = tmp_path / "study.html"
    path.write_text(study_page(study, findings, {}, [], 0.0))
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.goto(path.as_uri())
    table = tab.locator(".scroll").first
    width, room = table.evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert width <= room
    assert table.locator(".range").first.evaluate("range => range.clientWidth") > 100
    labels = "cells => cells.map((cell) => getComputedStyle(cell, '::before').content)"
    assert table.locator("td").evaluate_all(labels) == [f'"{column}"' for column in columns]
    tab.set_viewport_size(SIZE)


def ground(page: Page) -> str:
    told: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return told


def test_light_and_dark(drawn: Path, browser: Browser) -> None:
    with browser.new_page(color_scheme="dark") as tab, watched(tab) as opened:
        page = unfolded(opened(drawn))
        page.locator("#figure-results_rates").scroll_into_view_if_needed()
        label = page.locator("#figure-results_rates svg .role-axis-label text").first
        dark, light = (config(dark=each)["axis"]["labelColor"] for each in (True, False))
        assert ground(page) == "rgb(20, 23, 28)"
        expect(label).to_have_attribute("fill", dark)
        page.emulate_media(color_scheme="light")
        assert ground(page) == "rgb(255, 255, 255)"
        expect(label).to_have_attribute("fill", light)
        button = page.get_by_role("button", name="Theme")
        expect(button).to_have_accessible_name("Theme: auto")
        for name, color in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 28)")]:
            button.click()
            expect(button).to_have_accessible_name(f"Theme: {name}")
            assert ground(page) == color
        expect(label).to_have_attribute("fill", dark)


AXE = """axe.run({
  resultTypes: ["violations"],
  runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"],
})"""


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1280, "light"), pytest.param(400, "dark", marks=pytest.mark.exhaustive)],
)
def test_no_serious_fault_of_accessibility(
    two: Path, browser: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    with browser.new_page(color_scheme=scheme, bypass_csp=True) as page:
        page.set_viewport_size({"width": width, "height": 900})
        for link in (
            "#attempts?verdict=failed&where=after",
            "#attempts?open=sum/0&sample=0&diff=1",
        ):
            page.goto(two.as_uri() + link)
            expect(page.locator(".list, .attempt").locator("visible=true").first).to_be_visible()
            page.evaluate("scrollTo(0, 0)")  # what is half below the bar is too small a target
            page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
            faults = page.evaluate(AXE)["violations"]
            serious = [each for each in faults if each["impact"] in ("serious", "critical")]
            told = [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
            assert told == [], link


@pytest.mark.exhaustive
@pytest.mark.parametrize("which", ["drawn", "hostile"])
def test_no_page_is_wider_than_the_screen(
    request: pytest.FixtureRequest, opened: Opened, which: str
) -> None:
    path: Path = request.getfixturevalue(which)
    first = "sum/0" if which == "drawn" else quote(PAYLOADS[0], safe="")
    page = opened(path)
    for link in ("", "#attempts?round=any", f"#attempts?open={first}&sample=0"):
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
        expect(link).to_have_text("Samples")
        expect(link).to_be_in_viewport(ratio=1)


def test_every_control_has_a_name(two: Path, opened: Opened) -> None:
    page = opened(two)
    controls = r"- (button|combobox|checkbox|searchbox|link|grid|region|img|figure|option)\b"
    for link in ("", "#attempts?open=sum/0&sample=0"):
        page.goto(two.as_uri() + link)
        page.wait_for_timeout(100)
        snapshot = page.locator("body").aria_snapshot()
        named = re.findall(rf'{controls} "[^"]+"', snapshot)
        assert len(named) > 20
        assert not re.findall(rf"{controls}(?! \")[^\n]*", snapshot)
    expect(page.locator("h1").locator("visible=true")).to_have_count(1)
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
