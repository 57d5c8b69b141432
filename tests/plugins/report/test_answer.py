"""The sentence that answers, in each situation that it has to be honest about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from harness.plugins.comparisons.comparable import Run, Variant
from harness.plugins.comparisons.comparison_document import comparison_document
from harness.plugins.comparisons.pair_matrix import pair_matrix, with_planned
from harness.plugins.comparisons.run_comparison import ComparisonOptions, compare_runs
from harness.plugins.comparisons.suite import suite_of
from harness.plugins.report.overview import overview
from harness.plugins.report.parts import Headline, Overview
from harness.plugins.report.runs import Reported, ReportedRun
from harness.records import Score
from harness.report.table import Note
from tests.plugins.report.pages import MADE_AT, reported_run, two_runs
from tests.report.attempts import attempt

Runs = Callable[..., list[ReportedRun]]


def as_variants(runs: Sequence[ReportedRun], *, replies: bool = False) -> list[Run]:
    """The runs to compare, with the files of their replies if these are to be compared, too."""
    return [
        (
            Variant(
                run.name,
                run.metrics,
                run.settings,
                {},
                attempts=run.index.path if replies else None,
            ),
            run.attempts,
        )
        for run in runs
    ]


def compared(runs: Sequence[ReportedRun], variants: list[Run], **options: Any) -> Overview:
    """The overview of runs, compared as `report_on` does."""
    asked = ComparisonOptions(**options)
    comparison = compare_runs(variants, asked)
    pairs = pair_matrix(variants, asked.score, round_=asked.round)
    matrix = with_planned(pairs, comparison)
    return overview(Reported(list(runs), comparison, matrix), "title", MADE_AT)


def told(runs: Sequence[ReportedRun], **options: Any) -> Overview:
    if len(runs) < 2:
        return overview(Reported(list(runs)), "title", MADE_AT)
    return compared(runs, as_variants(runs), **options)


def answer(runs: Sequence[ReportedRun], **options: Any) -> Headline:
    return told(runs, **options).answer


@pytest.fixture
def runs_passing(tmp_path: Path) -> Runs:
    """Make runs of as many instances, of which each run passes the first ones."""

    def make(passing: Mapping[str, int], n: int = 20, **fields: Any) -> list[ReportedRun]:
        return [
            reported_run(
                tmp_path / name,
                name,
                [attempt(f"case/{number}", passed=number < k, **fields) for number in range(n)],
            )
            for name, k in passing.items()
        ]

    return make


def test_one_run_has_its_rate_and_interval(runs_passing: Runs) -> None:
    (run,) = runs_passing({"one": 15})
    assert answer([run]) == Headline(
        "one passes 75% of 20 instances (95% CI 51 to 91).",
        [
            'Most frequent reasons for failures: "exact: case/N is wrong in round 1" (5 of 5).',
            "Cost: $0.0200.",
        ],
    )


def test_many_answers_have_a_decimal_and_samples_are_not_cases(tmp_path: Path) -> None:
    lines = [attempt(f"a/{at}", sample) for at in range(100) for sample in range(2)]
    found = told([reported_run(tmp_path, "run", lines)])
    assert found.digits == 1
    expected = "run passes 100.0% of 200 samples of 100 instances (95% CI 96.4 to 100.0)."
    assert found.answer.sentence == expected


def test_the_most_frequent_reasons_come_first(tmp_path: Path) -> None:
    def run(name: str, *reasons: str) -> ReportedRun:
        lines = [
            attempt(f"{name}/{at}", passed=False, scores={reason: Score(False, False)})
            for at, reason in enumerate(reasons)
        ]
        return reported_run(tmp_path / name, name, lines)

    two, many = run("two", "x", "y", "y"), run("many", *"abcde")
    start = "Most frequent reasons for failures: "
    assert answer([two]).support[0] == f'{start}"y" (2 of 3), "x" (1 of 3).'
    assert answer([two, many]).support[0] == (
        f'{start}two "y" (2 of 3), "x" (1 of 3); many "a" (1 of 5), "b" (1 of 5), "c" (1 of 5).'
    )


def test_rounds_are_named(tmp_path: Path) -> None:
    sentence = answer(two_runs(tmp_path)[1:]).sentence
    assert sentence.startswith("after passes 67% of 12 samples of 6 instances after up to 2 rounds")


def test_nothing_judged(tmp_path: Path) -> None:
    lines = [attempt("a", passed=None, outcome="error", error="no connection", scores={})]
    runs = [reported_run(tmp_path / name, name, lines) for name in "ab"]
    found = told(runs[:1])
    assert found.answer.sentence == "a has no judged answer."
    assert "Not judged, neither passed nor failed: 1 of 1." in found.answer.support
    assert answer(runs).sentence == "none of the 2 runs has a judged answer."
    (failure,) = found.runs[0].failures
    assert failure.reason == "error: no connection"


def test_costs(tmp_path: Path) -> None:
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in ("hostile", "other")]
    free = [replace(run, metrics=replaced(run.metrics, cost_usd=None)) for run in runs]
    assert answer(free[:1]).support[-1] == "Cost: unknown."
    assert answer([free[0], runs[1]]).support[-1] == "Cost: hostile unknown; other $0.0010."


@pytest.mark.parametrize(
    ("passing", "sentence"),
    [
        (
            {"plain": 3, "strict": 16},
            "strict scored highest: 80%, 65 points above plain (95% CI 35 to 83, 20 instances).",
        ),
        (  # the baseline is higher
            {"plain": 16, "strict": 3},
            "plain scored highest: 80%, 65 points above strict (95% CI 35 to 83, 20 instances).",
        ),
        (
            {"plain": 14, "strict": 15},
            "strict scored highest: 75%, 5 points above plain (95% CI -11 to 20, 20 instances); "
            "plain (70%) is statistically tied.",
        ),
        (  # among more than two runs, the baseline is the rival
            {"base": 4, "weak": 2, "good": 18, "best": 19},
            "best scored highest: 95%, 75 points above base (95% CI 45 to 91, 20 instances); "
            "good (90%) is statistically tied.",
        ),
        (  # unless it is the highest
            {"base": 19, "weak": 2, "worse": 4},
            "base scored highest: 95%, 75 points above worse (95% CI 45 to 91, 20 instances).",
        ),
        (
            {"base": 17, "weak": 2, "near": 17, "best": 18},
            "best scored highest: 90%, 5 points above base (95% CI -11 to 20, 20 instances); "
            "base (85%) and near (85%) are statistically tied.",
        ),
        ({"zero": 2, "few": 2, "feedback": 2}, "zero, few and feedback scored 10% each."),
        (
            {"base": 2, "near": 17, "good": 18, "best": 18},
            "good and best scored highest: 90% each, good 80 points above base (95% CI 50 to 95, "
            "20 instances); near (85%) is statistically tied.",
        ),
    ],
)
def test_the_highest_run(runs_passing: Runs, passing: dict[str, int], sentence: str) -> None:
    assert answer(runs_passing(passing)).sentence == sentence


def test_ties_are_decided_by_the_p_values_of_the_table(runs_passing: Runs) -> None:
    found = told(runs_passing({"base": 20, "poor": 14}))
    assert found.comparison is not None
    (row,) = found.comparison.rows
    assert row.p_adjusted == row.p == pytest.approx(0.03125)
    assert found.answer.sentence.endswith("20 instances).")
    found = told(runs_passing({"base": 20, "poor": 14, "low": 14}))
    assert found.comparison is not None
    assert [row.p_adjusted for row in found.comparison.rows] == [pytest.approx(0.0625)] * 2
    assert found.answer.sentence.endswith("; poor (70%) and low (70%) are statistically tied.")


def test_what_is_not_judged_could_change_the_difference_by_points(tmp_path: Path) -> None:
    passed = {"c": [True] * 8 + [False] * 8, "f": [True] * 5 + [None] * 4 + [True] + [False] * 6}
    runs = [
        reported_run(
            tmp_path / name, name, [attempt(f"case/{n}", passed=one) for n, one in enumerate(each)]
        )
        for name, each in passed.items()
    ]
    found = told(runs)
    assert "Not judged, neither passed nor failed: f 4 of 16." in found.answer.support
    said = (
        "4 of 16 pairs are not judged, which may bias the difference: it is -13 points if all "
        "unjudged answers count against the run, and +13 points if for it."
    )
    (method,) = (one for one in found.method if said in one)
    assert "Standard error 8.33 points" in method
    assert "a true difference of 0." not in method


def test_runs_that_share_replies_are_not_independent(tmp_path: Path) -> None:
    first = [attempt(f"case/{n}", passed=n < 4) for n in range(20)]
    second = [attempt(f"case/{n}", round_=2, passed=n < 16) for n in range(4, 20)]
    lines = {"plain": first, "feedback": [*first, *second], "poor": first}
    runs = [reported_run(tmp_path / name, name, own) for name, own in lines.items()]
    assert compared(runs[:2], as_variants(runs[:2], replies=True)).answer.sentence == (
        "feedback scored highest: 80%, 60 points above plain (95% CI 30 to 79, 20 instances); "
        "plain (20%) is not independent (shared replies)."
    )
    sentence = compared(runs, as_variants(runs, replies=True)).answer.sentence
    expected = "plain (20%) and poor (20%) are not independent (shared replies)."
    assert sentence.partition("; ")[2] == expected
    same = runs[::2]
    assert compared(same, as_variants(same, replies=True)).answer.sentence == (
        "plain and poor scored 20% each; poor (20%) is not independent (shared replies)."
    )


def test_first_answers_are_named(tmp_path: Path) -> None:
    sentence = answer(two_runs(tmp_path), round=1).sentence
    assert ", 6 instances, each sample's first answer); after (0%) " in sentence


def test_no_case_in_common(tmp_path: Path) -> None:
    runs = [reported_run(tmp_path / name, name, [attempt(name)]) for name in "ab"]
    assert answer(runs).sentence == "a and b scored 100% each; b (100%) is not tested."
    runs[1] = reported_run(tmp_path / "c", "c", [attempt("c", passed=False)])
    assert answer(runs).sentence == (
        "a scored highest: 100%, without a judged instance in common with c; c (0%) is not tested."
    )


def test_marks_come_first(runs_passing: Runs) -> None:
    one, other = runs_passing({"plain": 3, "strict": 16})
    one = replace(one, marks=["SIMULATED"])
    assert answer([one, other]).sentence.startswith("SIMULATED (plain): strict scored highest: ")
    marks = ["SIMULATED", "INCOMPLETE 3 of 40"]
    assert answer([replace(one, marks=marks)]).sentence.startswith(
        "SIMULATED, INCOMPLETE 3 of 40: plain passes 15%"
    )


def test_marks_of_all_compared_runs_are_told_once(runs_passing: Runs) -> None:
    marks = ["SIMULATED", "INCOMPLETE 20 of 40"]
    facts = {"simulated": True, "complete": False, "n_planned": 40, "n_owed": 20}
    runs = [
        replace(run, marks=marks, metrics=replaced(run.metrics, **facts))
        for run in runs_passing({"plain": 3, "strict": 16})
    ]
    found = told(runs)
    assert found.answer.sentence.startswith("SIMULATED, INCOMPLETE 20 of 40: strict scored")
    assert [(mark.text, mark.runs) for mark in found.marks] == [
        ("SIMULATED", ["plain", "strict"]),
        ("INCOMPLETE 20 of 40", ["plain", "strict"]),
    ]


def test_prompts_that_differ_in_content_are_confounded(runs_passing: Runs) -> None:
    runs = runs_passing({"plain": 3, "strict": 16})
    prints = [{"content_sha256": "a"}, {"content_sha256": "b"}]
    variants = [Variant(run.name, run.metrics, run.settings, own)
                for run, own in zip(runs, prints, strict=True)]  # fmt: skip
    every = list(zip(variants, [run.attempts for run in runs], strict=True))
    found = compared(runs, every)
    assert found.answer.sentence.startswith("CONFOUNDED (strict): strict scored")
    assert any("cannot be attributed" in warning for warning in found.warnings)


def test_other_data_or_judges_are_warned_of(runs_passing: Runs) -> None:
    runs = runs_passing({"plain": 3, "strict": 16})
    prints = [{"judge_j_prompt_sha256": "a"}, {"judge_j_prompt_sha256": "b"}]
    variants = [Variant(run.name, run.metrics, run.settings, own)
                for run, own in zip(runs, prints, strict=True)]  # fmt: skip
    every = list(zip(variants, [run.attempts for run in runs], strict=True))
    found = compared(runs, every)
    assert (
        found.warnings[0]
        == "The runs were made or scored with a different judge_j_prompt: strict against plain."
    )


def test_another_judge_that_decides_is_warned_of(runs_passing: Runs) -> None:
    runs = runs_passing({"plain": 3, "strict": 16})
    variants = [Variant(run.name, run.metrics, {"judges.j": run.name}, {}, deciding=["j"])
                for run in runs]  # fmt: skip
    every = list(zip(variants, [run.attempts for run in runs], strict=True))
    compared = compare_runs(every, ComparisonOptions())
    said = "The runs define differently what passes: strict differs from plain in judges.j."
    assert overview(Reported(runs, compared), "title", MADE_AT).warnings[0] == said
    first, *_ = comparison_document(compared).parts
    assert isinstance(first, Note)
    assert first.text == said


def test_runs_that_are_not_compared(runs_passing: Runs) -> None:
    one, other = runs_passing({"a": 15, "b": 10})
    other = replace(other, metrics=replaced(other.metrics, task="essays"))
    found = overview(Reported([one, other]), "title", MADE_AT)
    assert found.answer.sentence == (
        "not compared: a passes 75% of 20 instances (95% CI 51 to 91); "
        "b passes 50% of 20 instances (95% CI 27 to 73)."
    )


def test_models_on_several_tasks_are_compared_in_the_table(runs_passing: Runs) -> None:
    four = runs_passing({"a.x": 15, "a.y": 10, "b.x": 5, "b.y": 10})
    of = [(run, *run.name.split(".")) for run in four]
    runs = [replace(run, metrics=replaced(run.metrics, task=t, model=m)) for run, t, m in of]
    found = overview(Reported(runs, suite=suite_of(as_variants(runs))), "title", MADE_AT)
    assert found.answer.sentence == (
        "2 models; highest, not tested: x on a (75%) and y on b (50%)."
    )
    assert [section.id for section in found.sections][:2] == ["matrix", "results"]


def test_a_mean_that_is_no_share_is_a_number(tmp_path: Path) -> None:
    runs = [
        reported_run(
            tmp_path / name,
            name,
            [attempt(f"c/{at}", scores={"length": Score(base + at % 3, None)}) for at in range(9)],
        )
        for name, base in (("short", 5.0), ("long", 9.0))
    ]
    runs = [replace(run, metrics=replaced(run.metrics, measure="length")) for run in runs]
    found = told(runs, score="length")
    assert found.answer.sentence.startswith(
        "long scored highest: length 10.000, 4.000 above short ("
    )
    assert [run.unit for run in found.runs] == ["", ""]
    assert found.comparison
    assert found.comparison.unit == ""


def test_a_value_by_another_measure_says_so(runs_passing: Runs) -> None:
    plain, best = runs_passing({"plain": 3, "best": 16})
    best = replace(best, metrics=replaced(best.metrics, measure="pass@1"))
    sentence = answer([plain, best], score="").sentence
    assert "best scored highest: 80% by its own measure, 65 points above plain" in sentence


def test_hostile_names_are_escaped(runs_passing: Runs) -> None:
    (run,) = runs_passing({"one": 15})
    assert "\\u202e passes" in answer([replace(run, name="\u202e")]).sentence


def test_models_on_tasks_without_a_verdict_have_no_highest_value(tmp_path: Path) -> None:
    undecided = {"helps": Score(None, None, "cannot say")}
    runs = []
    for task in ("a", "b"):
        for model in ("x", "y"):
            lines = [attempt(f"case/{n}", passed=None, scores=undecided) for n in range(3)]
            run = reported_run(tmp_path / f"{task}.{model}", f"{task}.{model}", lines)
            runs.append(replace(run, metrics=replaced(run.metrics, task=task, model=model)))
    found = overview(Reported(runs, suite=suite_of(as_variants(runs))), "title", MADE_AT)
    assert found.answer.sentence == (
        "2 models; highest, not tested: no model on a (n/a) and no model on b (n/a)."
    )
