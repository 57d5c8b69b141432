"""All pictures of a report: what they show, say, and never hold."""

import json
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest
from altair.vegalite.v6.schema.core import load_schema
from jsonschema_rs import validator_for

from harness.plugins.comparisons.comparable import Variant
from harness.plugins.comparisons.constraints import ConstraintKind
from harness.plugins.comparisons.costs import latencies
from harness.plugins.comparisons.pair_matrix import pair_matrix
from harness.plugins.comparisons.run_comparison import (
    ComparisonOptions,
    RunComparison,
    compare_runs,
)
from harness.plugins.report.figure import Figure, config
from harness.plugins.report.figures import figures
from harness.plugins.report.runs import ReportedRun
from harness.records import CallTotals, Score, Usage
from tests.plugins.report.figures.conftest import EFFECTS, attempt
from tests.plugins.report.figures.pictures import column, fields, strings, told, units

ANY = "passed in this or an earlier round"
HOSTILE = "<script>alert(1)</script>\u202e[a].b\n\x1b" + "x" * 300


def compared(*runs: ReportedRun, by: str = "parity") -> RunComparison:
    variants = [Variant(run.name, run.metrics, {}, {}) for run in runs]
    return compare_runs(
        [(variant, run.attempts) for variant, run in zip(variants, runs, strict=True)],
        ComparisonOptions(by=by),
    )


def kind(name: str = "with exactly N words", **others: Any) -> ConstraintKind:
    known = {"n": 9, "n_clusters": 9, "mean": 5 / 9, "stderr": 0.1}
    return ConstraintKind(kind=name, **{**known, "ci95": (0.3, 0.8), **others})


@pytest.fixture(scope="module")
def whole(report) -> tuple[list[ReportedRun], RunComparison]:
    """Two runs that have something for every picture, with hostile names."""

    def run(name: str, right: int, cost: float) -> ReportedRun:
        attempts = [
            attempt(
                f"i{number}",
                (number + sample + round_) % right > 0,
                sample=sample,
                round=round_,
                groups={
                    "parity": f"{HOSTILE}{number % 2}",
                    HOSTILE: "abc"[number % 3],
                    "structure": ("word02", "para01")[number % 2],
                },
            )
            for number in range(8)
            for sample in range(3)
            for round_ in (1, 2)
        ]
        made: ReportedRun = report(
            name,
            attempts,
            marks=("SIMULATED",),
            latencies=latencies([0.1, 0.5, 20.0]),
            constraints=(kind(off_by={-1.0: 3, 400.0: 1}), kind(HOSTILE)),
            metrics={"cost_usd": cost, "usage": Usage(1000, 20), "n_calls": 9},
            effects=EFFECTS,
        )
        return made

    runs = [run(f"{HOSTILE}a", 3, 1.0), run(f"{HOSTILE}b", 4, 100.0)]
    return runs, compared(*runs)


@pytest.fixture(scope="module")
def every(whole) -> list[Figure]:
    return figures(*whole)


def test_there_is_a_picture_of_everything(every) -> None:
    assert {figure.name.removesuffix("_2") for figure in every} >= {
        *("rate_by_parity", "any_round_by_parity", "rounds_any", "rounds_each"),
        *("pass_at_k", "pass_hat_k", "position_effect"),
        *("heat_map_parity", "comparison", "outcomes", "latency", "cost_rate"),
        *("constraints", "off_by_with_exactly_n_words"),
    }
    names = [figure.name for figure in every]
    assert len(names) == len(set(names))
    assert all(name.replace("_", "").isalnum() and name == name.lower() for name in names)


def test_every_picture_is_valid_vega_lite(every) -> None:
    def quoted(part: dict[str, Any]) -> dict[str, Any]:  # Vega-Lite's own references are no URIs
        of = part.get("$ref")
        return {**part, "$ref": quote(of, "#/")} if isinstance(of, str) else part

    validator = validator_for(json.loads(json.dumps(load_schema()), object_hook=quoted))
    for figure in every:
        validator.validate(figure.chart)


def test_of_nothing_there_is_no_picture(report) -> None:
    assert figures([], None) == []
    assert figures([report("none", [])], None) == []


def test_each_datum_is_in_the_table_and_each_row_in_the_picture(every) -> None:
    for figure in every:
        assert set(told(figure)) == set(figure.rows), figure.name
        assert {len(row) for row in figure.rows} == {len(figure.headings)}


def test_every_mark_has_a_tooltip(every) -> None:
    for figure in every:
        for unit, data in units(figure):
            assert data, figure.name
            assert fields(unit), figure.name


def test_charts_have_neither_theme_nor_address(every) -> None:
    for figure in every:
        json.dumps(figure.chart, allow_nan=False)
        assert figure.chart["width"] == "container"
        assert not figure.chart.keys() & {"$schema", "config", "background", "usermeta"}
        keys = {text for key, text in strings(figure.chart) if key == text}
        assert not keys & {"url", "href", "signal", "$schema", "facet", "repeat", "hconcat"}


def test_names_from_data_are_inert_and_name_no_field(every) -> None:
    for figure in every:
        texts = [text for _, text in strings(figure.chart)]
        texts += [figure.title, figure.caption, *figure.headings]
        texts += [cell for row in figure.rows for cell in row]
        for text in texts:
            # Only a label of two lines has a line feed, between them.
            assert all(line.isprintable() for line in text.split("\n")), figure.name
            assert len(text) < 1500
        for key, text in strings(figure.chart):
            if key == "field":
                assert text.isascii()
                assert text.replace("_", "").isalnum()


def test_a_run_has_one_colour_and_shape_in_all_pictures(every) -> None:
    scales = set()
    for figure in every:
        for unit, _ in units(figure):
            for channel in ("color", "fill", "shape"):
                encoded = unit["encoding"].get(channel, {})
                if encoded.get("field") == "key":
                    scales.add((channel == "shape", json.dumps(encoded["scale"])))
    assert Counter(is_shape for is_shape, _ in scales) == {True: 1, False: 1}


def test_marks_are_in_the_title_and_of_some_runs_in_the_caption(every, report) -> None:
    for figure in every:
        assert "(SIMULATED)" in figure.title
    attempts = [attempt(f"i{n}", n > 1, groups={"parity": str(n % 2)}) for n in range(4)]
    runs = [report("a", attempts, marks=("SIMULATED",)), report("b", attempts)]
    assert named(figures(runs, None), "rate_by_parity").caption.startswith("SIMULATED: a.")
    assert "SIMULATED" not in named(figures(runs[:1], None), "rate_by_parity").caption


def test_an_incomplete_run_is_named(report) -> None:
    attempts = [attempt(f"i{n}", n > 1, groups={"parity": str(n % 2)}) for n in range(4)]
    runs = [report("a", attempts), report("b", attempts, marks=("INCOMPLETE 4 of 9",))]
    for figure in figures(runs, None):
        assert figure.title.endswith("(INCOMPLETE)")
        assert figure.caption.startswith("INCOMPLETE 4 of 9: b.")


@pytest.fixture(scope="module")
def by_structure(gpt4, vicuna) -> RunComparison:
    return compared(gpt4, vicuna, by="structure")


@pytest.fixture(scope="module")
def recorded(gpt4, vicuna, by_structure) -> list[Figure]:
    """Both recorded runs and their comparison by structure."""
    return figures([gpt4, vicuna], by_structure)


def named(found: list[Figure], name: str) -> Figure:
    (figure,) = [figure for figure in found if figure.name == name]
    return figure


def share(text: str) -> float:
    """The fraction that a percentage says."""
    return float(text.removesuffix("%")) / 100


def rates(figure: Figure, run: str, value: str) -> dict[str, float]:
    at = figure.headings.index(value)
    return {row[0]: share(row[at]) for row in figure.rows if row[1] == run}


def plotted(figure: Figure) -> dict[str, float]:
    return {
        datum["name"]: datum["value"]
        for unit, data in units(figure)
        if unit["mark"]["type"] == "point"
        for datum in data
    }


def test_first_rounds_of_the_recorded_run(recorded, expected) -> None:
    wanted = {k: v for k, v in expected["round1"].items() if k not in ("overall", "n")}
    both = named(recorded, "rate_by_structure")
    assert rates(both, "gpt-4", "pass rate of first answers") == pytest.approx(wanted, abs=0.0005)
    assert len(both.rows) == 26


def axis_titles(figure: Figure) -> set[str]:
    return {
        one["title"]
        for unit, _ in units(figure)
        for channel in ("x", "y", "color")
        for part in ("axis", "legend")
        if (one := unit["encoding"].get(channel, {}).get(part)) and one.get("title")
    }


def test_which_answers_a_rate_is_of_is_in_title_and_axis(recorded) -> None:
    for name, title in (
        ("last_rounds_by_structure", "Pass rate of last rounds by structure"),
        ("rate_by_structure", "Pass rate of first answers by structure"),
        ("position_effect", "Position effect: pass rate of first answers"),
        ("heat_map_structure", "Pass rate of last rounds by run, structure"),
        ("heat_map_structure_source", "Pass rate of last rounds by run, source, structure"),
    ):
        figure = named(recorded, name)
        assert figure.title == title
        rate = "pass rate of last rounds" if "last" in title else "pass rate of first answers"
        assert rate in axis_titles(figure)
    any_round = named(recorded, "any_round_by_structure")
    assert any_round.title == "Passed in any round by structure"
    assert "passed in any round" in axis_titles(any_round)
    comparison = named(recorded, "comparison")
    assert comparison.title == "Difference in pass rate of last rounds from gpt-4"
    assert "difference in pass rate of last rounds, points" in axis_titles(comparison)


def test_of_one_round_nothing_is_said_of_rounds(vicuna) -> None:
    found = figures([vicuna], None)
    assert named(found, "rate_by_structure").title == "Pass rate by structure"
    assert named(found, "position_effect").title == "Position effect: pass rate"
    assert "pass rate" in axis_titles(named(found, "rate_by_structure"))
    assert not any("first answers" in one.title + one.caption for one in found)


def test_recorded_answers_were_neither_timed_nor_paid_for(report) -> None:
    def run(name: str, backend: str) -> ReportedRun:
        made: ReportedRun = report(
            name,
            [attempt("a", True), attempt("b", False)],
            latencies=latencies([0.1, 0.2]),
            metrics={"cost_usd": 1.0},
            manifest={"backend": backend},
        )
        return made

    recorded = [run("r", "replay"), run("s", "replay")]
    timed = [run("t", "openai"), run("u", "simulated")]
    assert not {"latency", "cost_rate"} & {one.name for one in figures(recorded, None)}
    found = figures([*recorded, *timed], None)
    assert set(column(named(found, "latency"), "run")) == {"t", "u"}
    assert column(named(found, "cost_rate"), "run") == ["t", "u"]
    assert "Without r, s: recorded answers were not timed." in named(found, "latency").caption


def test_variants_are_told_apart_by_what_they_differ_in(report) -> None:
    start = "replay_gpt3_natural_instructions."
    names = [f"{start}all_texts_positive_{end}" for end in ("max", "mid")]
    attempts = [attempt(f"i{n}", n > 1, groups={"parity": "eo"[n % 2]}) for n in range(4)]
    runs = [report(name, attempts) for name in names]
    for figure in figures(runs, compared(*runs)):
        for unit, data in units(figure):
            for channel in ("color", "fill", "shape"):
                legend = unit["encoding"].get(channel, {}).get("legend")
                if legend and "values" in legend:
                    assert set(legend["values"]) <= {
                        "all_texts_positive_max",
                        "all_texts_positive_mid",
                    }
            for datum in data:
                assert not any(start in str(datum.get(key, "")) for key in ("row", "column", "key"))
        assert start not in figure.title
        if "run" in figure.headings:
            assert set(column(figure, "run")) <= set(names), "whole in tables and tooltips"


def test_groups_that_are_numbers_are_along_an_axis(report) -> None:
    def run(name: str, sizes: tuple[str, ...]) -> ReportedRun:
        made: ReportedRun = report(
            name,
            [
                attempt(f"{size}{n}", n > 1, groups={"examples": size})
                for size in sizes
                for n in range(4)
            ],
        )
        return made

    figure = named(figures([run("r", ("0", "10", "2", "0.5"))], None), "rate_by_examples")
    assert column(figure, "examples") == ["0", "0.5", "2", "10"]
    for unit, data in units(figure):
        assert unit["encoding"]["x"]["field"] == "at"
        assert [datum["at"] for datum in data] == [0, 0.5, 2, 10]
    assert figure.chart["height"] < 400
    other = named(figures([run("r", ("0", "10", "two"))], None), "rate_by_examples")
    assert not any("at" in datum for _, data in units(other) for datum in data)


def test_a_label_of_one_group_in_each_run_is_a_setting(report) -> None:
    runs = [
        report(
            name,
            [attempt(p, True, groups={"encoding": name, "parity": p}) for p in "eo"],
        )
        for name in ("x", "y", "z")
    ]
    names = {figure.name for figure in figures(runs, None)}
    assert {"rate_by_parity", "heat_map_parity"} <= names
    assert not any("encoding" in name for name in names)


def test_the_ends_of_an_axis_have_room(recorded) -> None:
    assert config()["axis"]["labelFlush"] is False
    for name in ("rate_by_structure", "position_effect"):
        for unit, _ in units(named(recorded, name)):
            if unit["encoding"]["x"].get("scale"):
                assert unit["encoding"]["x"]["scale"] == {
                    "domain": [0, 1],
                    "nice": False,
                    "padding": 8,
                }


def test_any_round_of_the_recorded_run(recorded, gpt4) -> None:
    figure = named(recorded, "any_round_by_structure")
    assert plotted(figure)["word03"] == 1.0
    assert set(column(figure, "run")) == {"gpt-4"}, "the other has but one round"
    assert gpt4.metrics.groups["structure"]["word03"].pass_rate == pytest.approx(4 / 7)


def test_rounds_of_the_recorded_run(recorded, expected) -> None:
    wanted = [*expected["any_of_first_k_rounds"].values()]
    rates = [share(rate) for rate in column(named(recorded, "rounds_any"), ANY)]
    assert rates == pytest.approx(wanted, abs=0.0005)
    assert rates == pytest.approx([0.5125, 0.6154, 0.6486, 0.6587], abs=0.0006)
    figure = named(recorded, "rounds_each")
    each = [expected[f"round{k}"]["overall"] for k in (1, 2, 3, 4)]
    rates = [share(rate) for rate in column(figure, "passed in each round")]
    assert rates == pytest.approx(each, abs=0.0005)
    assert "failed so far" not in figure.caption


def test_effects_of_the_recorded_run(recorded) -> None:
    figure = named(recorded, "position_effect")
    by_level: dict[str, set[str]] = {}
    for group, level in zip(column(figure, "structure"), column(figure, "level"), strict=True):
        by_level.setdefault(level, set()).add(group)
    assert by_level == {
        "arbitrary": {"word02", "sent02"},
        "first": {"para01"},
        "last": {"word03", "para05", "pass01"},
    }
    assert "of_nothing" not in [figure.name for figure in recorded], "one level is no effect"


def test_structures_that_a_source_lacks_are_empty_and_not_0(recorded) -> None:
    figure = named(recorded, "heat_map_structure_source")
    cells = {(row[0], row[1]): row[2:] for row in figure.rows}
    assert len(cells) == 2 * 4 * 13
    assert cells["wiki, gpt-4", "word01"] == ("n/a", "n/a", "0", "0")
    assert cells["wiki, gpt-4", "sent02"][0] == "0.0%"


def test_later_rounds_after_a_stop_are_said_to_be_of_failures(report) -> None:
    attempts = [attempt("a", True), attempt("b", False), attempt("b", True, round=2)]
    told_so = report("r", attempts, settings={"rounds.stop_on_pass": True})
    seen = report("r", attempts)
    for run in (told_so, seen):
        figure = named(figures([run], None), "rounds_each")
        assert "From round 2 on, only samples that had failed so far: r." in figure.caption
        assert figure.rows[-1] == ("2", "r", "100%", "n/a", "n/a", "1", "1")


def test_what_was_not_judged_is_unknown(report) -> None:
    attempts = [
        attempt("a", None, groups={"parity": "odd"}),
        attempt("b", True, groups={"parity": "even"}),
    ]
    figure = named(figures([report("r", attempts)], None), "rate_by_parity")
    assert figure.rows == (
        ("even", "r", "100%", "n/a", "n/a", "1", "1", "0"),
        ("odd", "r", "n/a", "n/a", "n/a", "0", "0", "1"),
    )


def test_many_groups_are_cut_to_the_largest_and_it_is_said(report) -> None:
    attempts = [attempt(f"i{n}", True, groups={"task": f"t{n % 70}"}) for n in range(140 - 10)]
    figure = named(figures([report("r", attempts)], None), "rate_by_task")
    assert column(figure, "task") == [f"t{n}" for n in range(60)], "in natural order"
    assert "The 60 largest of 70 groups" in figure.caption


def test_a_task_with_a_measure_is_drawn_by_it(report) -> None:
    attempts = [
        attempt(f"i{n}", False, scores={"f1": Score(0.5 * n, False)}, groups={"parity": str(n % 2)})
        for n in range(4)
    ]
    run = report("r", attempts, measure="f1")
    figure = named(figures([run], None), "rate_by_parity")
    groups = run.metrics.groups["parity"]
    assert plotted(figure) == {name: group.scores["f1"].mean for name, group in groups.items()}
    assert "mean f1" in figure.headings
    assert figure.title == "Mean f1 by parity"


def test_comparison_is_that_of_the_tables(recorded, by_structure) -> None:
    figure = named(recorded, "comparison")
    assert figure.section == "comparison"
    (other,) = by_structure.others
    assert len(figure.rows) == 1 + len(other.groups)
    values = plotted(figure)
    assert values.pop("all instances") == other.overall.difference
    assert values == {name: group.difference for name, group in other.groups.items()}
    assert "not adjusted" in figure.caption
    assert set(column(figure, "p")) >= {"<0.001"}


def test_a_difference_without_interval_is_shown_as_such(report) -> None:
    first = report("a", [attempt("i", True, groups={"parity": "odd"})])
    second = report("b", [attempt("i", False, groups={"parity": "odd"})])
    figure = named(figures([first, second], compared(first, second)), "comparison")
    assert column(figure, "difference in pass rate") == ["-100", "-100"]
    assert set(column(figure, "95% interval")) == {"n/a"}


def test_a_label_that_is_a_coarser_form_of_another_has_no_heat_map(report) -> None:
    attempts = [
        attempt(f"i{n}", True, groups={"task": str(n), "kind": str(n % 2)}) for n in range(4)
    ]
    found = [figure.name for figure in figures([report("r", attempts)], None)]
    assert "rate_by_kind" in found
    assert "heat_map_task_kind" not in found


@pytest.mark.parametrize("rounds", [2, 3, 25])
def test_rounds_are_told_once_on_the_axis(report, rounds: int) -> None:
    attempts = [attempt("a", False, round=k) for k in range(1, rounds + 1)]
    figure = named(figures([report("r", attempts)], None), "rounds_any")
    ticks = next(units(figure))[0]["encoding"]["x"]["axis"]["values"]
    assert ticks[0] == 1
    assert len(set(ticks)) == len(ticks) <= 10
    assert all(tick in range(1, rounds + 1) for tick in ticks)


def test_what_was_wanted_is_in_sight_of_the_misses(report) -> None:
    def bins(off_by: dict[float, int]) -> list[str]:
        run = report("r", [attempt("a", True)], constraints=(kind(off_by=off_by),))
        unit, _ = next(units(named(figures([run], None), "off_by_with_exactly_n_words")))
        found: list[str] = unit["encoding"]["x"]["scale"]["domain"]
        return found

    assert bins({-2.0: 6}) == ["-2", "-1", "0"]
    assert bins({1.0: 6}) == ["0", "+1"]
    assert bins({-1.0: 1, 2.0: 1}) == ["-1", "0", "+1", "+2"]


def test_pass_at_k_is_the_metrics(report) -> None:
    attempts = [attempt(f"i{n}", (n + k) % 3 == 0, sample=k) for n in range(6) for k in range(3)]
    run = report("r", attempts)
    for name, wanted in (
        ("pass_at_k", run.metrics.pass_at_k),
        ("pass_hat_k", run.metrics.pass_hat_k),
    ):
        figure = named(figures([run], None), name)
        assert [datum["value"] for datum in next(units(figure))[1]] == [*wanted.values()]
        assert column(figure, "k") == ["1", "2", "3"]


def test_cost_is_drawn_against_the_rate_where_it_is_known(report) -> None:
    attempts = [attempt("a", True), attempt("b", False)]
    free, cheap, dear = (
        report(name, attempts, metrics={"cost_usd": cost})
        for name, cost in (("free", 0.0), ("cheap", 0.5), ("dear", 50.0))
    )
    names = [figure.name for figure in figures([free, cheap], None)]
    assert "cost_rate" not in names, "one point is no comparison"
    figure = named(figures([free, cheap, dear], None), "cost_rate")
    assert column(figure, "run") == ["cheap", "dear"]
    assert next(units(figure))[0]["encoding"]["x"]["scale"]["type"] == "log"


def test_the_cost_of_judges_is_not_the_models(report) -> None:
    calls = CallTotals(n_calls=2, usage=Usage(20, 2), cost_usd=0.5)
    metrics = {"cost_usd": 9.0, "usage": Usage(900, 90), "n_calls": 9}
    runs = [
        report("judged", [attempt("a", True)], metrics=metrics | {"model_calls": calls}),
        report("alone", [attempt("a", True)], metrics=metrics),
    ]
    found = figures(runs, None)
    assert column(named(found, "cost_rate"), "cost, US dollars") == ["$0.5000", "$9.00"]
    assert "Without the calls of judges" in named(found, "cost_rate").caption
    assert "judges" not in named(figures([runs[1], runs[1]], None), "cost_rate").caption


def test_a_line_joins_the_runs_that_none_beats_in_cost_and_rate(report) -> None:
    def run(name: str, passed: int, cost: float) -> ReportedRun:
        attempts = [attempt(f"i{n}", n < passed) for n in range(4)]
        made: ReportedRun = report(name, attempts, metrics={"cost_usd": cost})
        return made

    runs = [run("worse", 1, 2.0), run("dear", 4, 9.0), run("cheap", 2, 1.0), run("same", 2, 1.0)]
    ((line, ends), *_) = units(named(figures(runs, None), "cost_rate"))
    assert line["mark"]["interpolate"] == "step-after"
    assert [(one["at"], one["value"]) for one in ends] == [(1.0, 0.5), (9.0, 1.0)]


def test_latency_is_logarithmic_where_it_is_wide(report) -> None:
    def scale(*seconds: float) -> dict[str, Any]:
        run = report("r", [attempt("a", True)], latencies=latencies(seconds))
        figure = named(figures([run], None), "latency")
        found: dict[str, Any] = next(units(figure))[0]["encoding"]["x"]["scale"]
        return found

    assert scale(0.1, 100.0)["type"] == "log"
    assert "type" not in scale(1.0, 2.0)
    assert "type" not in scale(0.0, 100.0), "nothing has a logarithm of minus infinity"


def test_the_map_of_pairs_shows_the_row_minus_the_column(report) -> None:
    passing = {"weak": 2, "middling": 8, "strong": 17}
    runs = [
        report(name, [attempt(f"i{n}", n < passed) for n in range(20)])
        for name, passed in passing.items()
    ]
    variants = [(Variant(run.name, run.metrics, {}, {}), run.attempts) for run in runs]
    figure = named(figures(runs, compared(*runs, by=""), pair_matrix(variants)), "pairs")
    differences = {row[:2]: float(row[2]) for row in figure.rows}
    assert differences == {
        (name, other): pytest.approx(100 * (passing[name] - passing[other]) / 20)
        for name in passing
        for other in passing
        if name != other
    }


def test_n_over_rounds_is_that_of_the_first(report) -> None:
    """Three samples of four fail in the first round, and two of these in the second."""
    passed = {"a": [True], "b": [False, True], "c": [False, False, True], "d": [False] * 3}
    run = report(
        "r",
        [
            attempt(name, verdict, round=number)
            for name, verdicts in passed.items()
            for number, verdict in enumerate(verdicts, start=1)
        ],
    )
    figure = named(figures([run], None), "rounds_each")
    assert "n counts those of round 1" in figure.caption
    assert "n = 4 samples per run." in figure.caption
    assert column(figure, "samples") == ["4", "3", "2"]


def test_pass_at_k_has_the_clusters_of_the_instances_with_k_samples(report) -> None:
    """Two prompts have two instances each; those of one prompt have a third sample."""
    samples = {"a1": 3, "a2": 3, "b1": 2, "b2": 2, "c": 1}
    attempts = [
        attempt(name, (number + sample) % 2 == 0, sample=sample, cluster=name[0])
        for number, (name, n) in enumerate(samples.items())
        for sample in range(n)
    ]
    unjudged = attempt("c", None, sample=1, cluster="c")
    for name in ("pass_at_k", "pass_hat_k"):
        figure = named(figures([report("r", [*attempts, unjudged])], None), name)
        assert column(figure, "k") == ["1", "2", "3"]
        assert column(figure, "instances") == ["5", "4", "2"]
        assert column(figure, "units") == ["3", "2", "1"]
